# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause
"""
Reads AMD assembly as clang writes it: which operations a kernel has, and what its descriptor says.

Machine code has operations that the source has not: a division is a reciprocal and fused steps that make its result correctly
rounded, a square root is an instruction that may be off by one bit and a fused test of both neighbours, a conversion between floats
and 64-bit integers takes the upper half off by a fused step. So operations are counted, and compared with those in LLVM's text: no
addition may be missing, as one that was fused with a multiplication is, and no fused step may be there for which there is no reason.
"""

import collections
import pathlib
import re

# Steps of a correctly rounded division, as code for all targets has them.
FMAS_OF_DIVISION = 5
FMAS_OF_SQUARE_ROOT = 2


def targets_of_build():
    """All targets that the build makes code for, unless it is told others."""
    options = (pathlib.Path(__file__).resolve().parents[1] / "meson_options.txt").read_text(encoding="utf-8")
    return re.findall(r"gfx\w+", options.split("option('gpu_hip_targets'")[1].split("description")[0])


Kernel = collections.namedtuple("Kernel", "name operations descriptor")


def kernels_of(assembly):
    """The kernels of an assembly file. Operations are (name, line), those that come in pairs one after the other."""
    for found in re.finditer(r"^(\w+):\s+; @\1\n(.*?)^\.Lfunc_end", assembly, re.M | re.S):
        operations = []
        for line in found.group(2).splitlines():
            for part in line.split("::"):
                operation = re.match(r"\s+([a-z]+_[a-z0-9_]+)", part)
                if operation:
                    operations.append((operation.group(1), line.strip()))
        block = re.search(rf"\.amdhsa_kernel {found.group(1)}\n(.*?)\.end_amdhsa_kernel", assembly, re.S)
        if block:
            descriptor = {name: int(value) for name, value in re.findall(r"\.amdhsa_(\w+) (\d+)$", block.group(1), re.M)}
            yield Kernel(found.group(1), operations, descriptor)


def plain(name):
    """An operation without its encoding: v_pk_add_f32 and v_dual_add_f32_e32 are add_f32."""
    name = re.sub(r"(_e32|_e64|_dpp|_dpp8|_sdwa)+$", "", name)
    return re.sub(r"^[vs]_(pk_|dual_|s_)?", "", name)


def count(kernel):
    """How many operations of each name; packed ones are two."""
    n = collections.Counter()
    for name, _ in kernel.operations:
        n[plain(name)] += 2 if name.startswith("v_pk_") else 1
    return n


def total(n, pattern):
    return sum(times for name, times in n.items() if re.fullmatch(pattern, name))


KINDS = {"32": "float", "64": "double"}
OPERATION = re.compile(r"= (?:tail |notail )?(\w+)\b(.*)")


def count_llvm(text):
    """The same in LLVM's text of a kernel: fadd.float and so on; conversions to integers as fpto.float.i64."""
    n = collections.Counter()
    for line in text.splitlines():
        found = OPERATION.search(line)
        if not found:
            continue
        name, rest = found.groups()
        lanes = re.search(r"<(\d+) x ", rest)
        lanes = int(lanes.group(1)) if lanes else 1
        if name == "call":
            intrinsic = re.search(r"@llvm\.(?:amdgcn\.)?(fma|sqrt|rcp)\.(?:v(\d+))?f(32|64)", rest)
            if intrinsic:
                n[f"{intrinsic.group(1)}.{KINDS[intrinsic.group(3)]}"] += int(intrinsic.group(2) or 1)
        elif name in ("fptoui", "fptosi"):
            types = re.search(r"(float|double)>? .* to (?:<\d+ x )?(i\d+)", rest)
            n[f"fpto.{types.group(1)}.{types.group(2)}"] += lanes
        elif name in ("fadd", "fsub", "fmul", "fdiv"):
            n[f"{name}.{'double' if re.search(r'double', rest) else 'float'}"] += lanes
        elif name in ("udiv", "urem", "sdiv", "srem"):
            n[f"divide.{re.search(r'i[0-9]+', rest).group(0)}"] += lanes
    return n


APPROXIMATE = re.compile(r"(rsq|exp|log|sin|cos|rcp_legacy|log_clamp|rcp_clamp|mul_legacy|fma_legacy|mad_legacy)_f.*")
HALF = re.compile(r".*(_f16|_bf16|mix_f32|mixlo|mixhi).*")


def rules(kernel, counts, allowed):
    """
    (rule, line) of what must not be in this kernel. `counts` are those of LLVM's text, for one or more targets: where they differ, because
    a loop over a wave has another length or a lane of a vector is not used, the kernel's own may be between them.
    """
    n = count(kernel)
    names = set().union(*counts)
    low, high = (collections.Counter({name: choice(c[name] for c in counts) for name in names}) for choice in (min, max))
    for name, line in kernel.operations:
        if APPROXIMATE.fullmatch(plain(name)):
            yield "approximate", line
        if HALF.fullmatch(name):
            yield "half precision", line
        if "swappc" in name or "s_call" in name:
            yield "call", line
        if "_f64" in name and "f64" not in allowed:
            yield "type", line
    for bits, kind in KINDS.items():
        adds = total(n, rf"(add|sub|subrev|add_num|sub_num)_f{bits}")
        fmas = total(n, rf"(fma|fmac|mad|mac)(ak|mk)?_f{bits}")
        needed, reason = (FMAS_OF_DIVISION * c[f"fdiv.{kind}"] + FMAS_OF_SQUARE_ROOT * c[f"sqrt.{kind}"] + c[f"fma.{kind}"]
                          for c in (low, high))
        wanted = low[f"fadd.{kind}"] + low[f"fsub.{kind}"]
        if adds < wanted:
            yield "contracted", f"{adds} additions of f{bits}, but {wanted} in LLVM's text"
        reason += high[f"fpto.{kind}.i64"]
        if bits == "32":  # integers are divided in floats, too
            reason += n["rcp_iflag_f32"] + 2 * high["divide.i64"]
        if fmas > reason:
            yield "fma", f"{fmas} fused operations of f{bits}, but reason for {reason}"
        if fmas < needed:
            yield "approximate", f"{fmas} fused operations of f{bits}: divisions and square roots take {needed}"
        divisions = n[f"div_fixup_f{bits}"]
        if divisions < low[f"fdiv.{kind}"]:
            yield "approximate", f"{divisions} completed divisions of {low[f'fdiv.{kind}']}"
        wanted = divisions + (high["divide.i64"] if bits == "32" else 0)
        if "rcp" in allowed:  # gpu_near_reciprocal()
            wanted += high[f"rcp.{kind}"]
        if n[f"rcp_f{bits}"] > wanted:
            yield "approximate", f"{n[f'rcp_f{bits}']} reciprocals, but reason for {wanted}"
        if n[f"sqrt_f{bits}"] > high[f"sqrt.{kind}"]:
            yield "approximate", f"{n[f'sqrt_f{bits}']} square roots, but {high[f'sqrt.{kind}']} in LLVM's text"
    for name, value in (("float_denorm_mode_32", 3), ("float_denorm_mode_16_64", 3), ("float_round_mode_32", 0),
                        ("float_round_mode_16_64", 0)):
        if kernel.descriptor.get(name) != value:
            rule = "flush to zero" if "denorm" in name else "rounding"
            yield rule, f".amdhsa_{name} {kernel.descriptor.get(name)}"
    if kernel.descriptor.get("private_segment_fixed_size"):
        yield "scratch", f"{kernel.descriptor['private_segment_fixed_size']} bytes of registers and arrays in memory"
