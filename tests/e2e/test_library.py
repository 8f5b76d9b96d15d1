# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""The installed library as other programs find it: header, pkg-config, static and shared, exported names."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, SANITIZED

PREFIX = ROOT / "build/install"

pytestmark = [
    pytest.mark.skipif(SANITIZED, reason="the installed library is that of the plain build, tested there"),
    pytest.mark.skipif(not PREFIX.is_dir(), reason="build/install is missing: tools/library_build makes it"),
]

PROGRAM = """
#include <vmafgpu.h>
#include <stdio.h>
int main(void)
{
    static const unsigned char reference[16 * 16] = { 0 }, distorted[16 * 16] = { 16 };
    VgScorerConfig config = VG_SCORER_CONFIG_INIT;
    config.geometry.width = config.geometry.height = 16;
    config.geometry.chroma = VG_CHROMA_400;
    config.geometry.bit_depth = 8;
    config.features = "psnr:enable_mse=true";
    VgScorer *scorer;
    if (vg_scorer_create(&scorer, &config))
        return 1;
    VgPicture picture[2];
    for (int i = 0; i < 2; i++) {
        picture[i].size = sizeof(picture[i]);
        picture[i].geometry = config.geometry;
        picture[i].sample_bytes = 1;
        picture[i].shift = 0;
        picture[i].data[0] = i ? reference : distorted;
        picture[i].data[1] = picture[i].data[2] = NULL;
        picture[i].pitch[0] = 16;
        picture[i].step[0] = 1;
        picture[i].release = NULL;
        picture[i].ref = NULL;
        picture[i].memory = VG_MEMORY_HOST;
        picture[i].stream = NULL;
    }
    if (vg_scorer_submit(scorer, &picture[0], &picture[1]) || vg_scorer_flush(scorer))
        return 2;
    double mse;
    if (vg_scorer_score(scorer, 1, 0, &mse))
        return 3;
    printf("%u %s %g\\n", vg_version(), vg_scorer_key(scorer, 1), mse);
    vg_scorer_free(&scorer);
    return 0;
}
"""


def pkg_config(*arguments, prefix=PREFIX):
    environment = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    result = subprocess.run(["pkg-config", *arguments, "libvmafgpu"], env=environment, capture_output=True, text=True, check=True)
    return result.stdout.split()


def build(folder, compiler, source, *flags):
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", source, "-o", folder / "program", *flags], check=True)
    return folder / "program"


@pytest.mark.parametrize("compiler", [("gcc", "-std=c11", "-pedantic"), ("g++", "-std=c++11", "-pedantic")])
@pytest.mark.parametrize("kind", ["static", "shared"])
def test_program(tmp_path, compiler, kind):
    """One and the same program in C and C++; (16 - 0)^2 / 256 samples = 1."""
    if not shutil.which(compiler[0]):
        pytest.skip(f"{compiler[0]} is not installed")
    source = tmp_path / ("program.cc" if compiler[0] == "g++" else "program.c")
    source.write_text(PROGRAM)
    prefix = PREFIX if kind == "shared" else ROOT / "build/static-install"
    static = ["--static"] if kind == "static" else []
    program = build(tmp_path, compiler, source, *pkg_config("--cflags", "--libs", *static, prefix=prefix))
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    assert ("libvmafgpu.so.0" in libraries) == (kind == "shared")
    environment = os.environ | {"LD_LIBRARY_PATH": str(PREFIX / "lib")}
    output = subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout
    assert output == "100 mse_y 1\n"


def test_exported_names():
    """What the header declares, and nothing else."""
    header = (PREFIX / "include/vmafgpu.h").read_text()
    declared = set(re.findall(r"^VG_API [^;]*?\b(vg_\w+)\(", header, re.MULTILINE))
    library = PREFIX / "lib/libvmafgpu.so"
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert len(declared) > 20
    assert {line.split()[2] for line in symbols.splitlines()} == declared


def test_version():
    """Header, pkg-config and file name agree."""
    header = (PREFIX / "include/vmafgpu.h").read_text()
    version = ".".join(re.search(rf"#define VG_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
    assert pkg_config("--modversion") == [version]
    assert (PREFIX / f"lib/libvmafgpu.so.{version}").is_file()
    dynamic = subprocess.run(["readelf", "-d", PREFIX / "lib/libvmafgpu.so"], capture_output=True, text=True, check=True).stdout
    assert "soname: [libvmafgpu.so.0]" in dynamic
