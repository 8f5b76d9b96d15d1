/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * AMD's code objects as far as a runtime looks at them: ELF files with a symbol NAME.kd, the kernel descriptor, for each
 * kernel; and bundles of them.
 *
 * Source: "User Guide for AMDGPU Backend" (ELF code object, kernel descriptor) and "Clang Offload Bundler", LLVM 19.
 */
#include "internal.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE_AMD = 224, ABI_HSA = 64, ABI_V3 = 1, ABI_V6 = 4 };

/* Architectures by the lowest byte of an ELF header's flags. */
static const struct {
    unsigned char flag;
    const char *name;
} architectures[] = {
    { 0x2c, "gfx900" },  { 0x2f, "gfx906" },  { 0x30, "gfx908" },  { 0x3f, "gfx90a" },  { 0x4c, "gfx942" },
    { 0x33, "gfx1010" }, { 0x36, "gfx1030" }, { 0x37, "gfx1031" }, { 0x38, "gfx1032" }, { 0x39, "gfx1033" },
    { 0x3e, "gfx1034" }, { 0x3d, "gfx1035" }, { 0x45, "gfx1036" }, { 0x41, "gfx1100" }, { 0x46, "gfx1101" },
    { 0x47, "gfx1102" }, { 0x44, "gfx1103" }, { 0x43, "gfx1150" }, { 0x4a, "gfx1151" }, { 0x48, "gfx1200" },
    { 0x4e, "gfx1201" },
};

/* The start of a kernel descriptor of 64 bytes; all numbers are little-endian, as are our hosts. */
typedef struct Descriptor {
    uint32_t local_memory, private_memory, args_size, reserved;
    int64_t entry;
    uint8_t reserved2[32];
    uint16_t properties; /* bit 10: waves of 32 lanes */
    uint16_t preload, reserved3[2];
} Descriptor;

static const char *architecture_of(const Elf64_Ehdr *elf)
{
    for (unsigned i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++)
        if (architectures[i].flag == (elf->e_flags & 0xff))
            return architectures[i].name;
    return "unknown";
}

/* The bytes at a virtual address, or NULL. */
static const void *at_address(const Elf64_Ehdr *elf, uint64_t address, size_t size)
{
    const Elf64_Phdr *segments = (const void *)((const char *)elf + elf->e_phoff);
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        const uint64_t offset = address - segments[i].p_vaddr;
        if (segments[i].p_type == PT_LOAD && offset < segments[i].p_filesz && size <= segments[i].p_filesz - offset)
            return (const char *)elf + segments[i].p_offset + offset;
    }
    return NULL;
}

static hipError_t add_kernel(HsKernel *kernel, const Elf64_Ehdr *elf, const Elf64_Sym *symbol, const char *name,
                             size_t length)
{
    Descriptor descriptor;
    const void *at = at_address(elf, symbol->st_value, sizeof(descriptor));
    if (!at || symbol->st_size != sizeof(descriptor) || length >= sizeof(kernel->name))
        return hs_complain(hipErrorInvalidImage, "%s is no kernel descriptor", name);
    memcpy(&descriptor, at, sizeof(descriptor));
    snprintf(kernel->name, sizeof(kernel->name), "%.*s", (int)length, name);
    kernel->args_size = descriptor.args_size;
    kernel->local_memory = descriptor.local_memory;
    kernel->wave = descriptor.properties >> 10 & 1 ? 32 : 64;
    return hipSuccess;
}

/* Kernels are what the dynamic symbols NAME.kd stand for. */
static hipError_t read_kernels(const Elf64_Ehdr *elf, HsKernel **kernels, unsigned *n)
{
    const char *file = (const char *)elf;
    const Elf64_Shdr *sections = (const void *)(file + elf->e_shoff), *table = NULL;
    for (unsigned i = 0; i < elf->e_shnum; i++)
        if (sections[i].sh_type == SHT_DYNSYM)
            table = &sections[i];
    if (!table || table->sh_link >= elf->e_shnum)
        return hs_complain(hipErrorInvalidImage, "a code object that has not been linked");
    const Elf64_Sym *symbols = (const void *)(file + table->sh_offset);
    const size_t n_symbols = table->sh_size / sizeof(*symbols);
    *n = 0;
    *kernels = calloc(n_symbols, sizeof(**kernels));
    if (!*kernels)
        return hipErrorOutOfMemory;
    for (size_t i = 0; i < n_symbols; i++) {
        const char *name = file + sections[table->sh_link].sh_offset + symbols[i].st_name;
        const size_t length = strlen(name);
        if (length <= 3 || strcmp(name + length - 3, ".kd"))
            continue;
        const hipError_t err = add_kernel(&(*kernels)[*n], elf, &symbols[i], name, length - 3);
        if (err) {
            free(*kernels);
            *kernels = NULL;
            return err;
        }
        ++*n;
    }
    return hipSuccess;
}

static hipError_t read_elf(const void *image, const char *arch, HsKernel **kernels, unsigned *n)
{
    const Elf64_Ehdr *elf = image;
    if (elf->e_machine != MACHINE_AMD || elf->e_ident[EI_OSABI] != ABI_HSA || elf->e_ident[EI_ABIVERSION] < ABI_V3 ||
        elf->e_ident[EI_ABIVERSION] > ABI_V6 || elf->e_type != ET_DYN)
        return hs_complain(hipErrorInvalidImage, "an ELF file of machine %u, ABI %u.%u, type %u", elf->e_machine,
                           elf->e_ident[EI_OSABI], elf->e_ident[EI_ABIVERSION], elf->e_type);
    return strcmp(architecture_of(elf), arch) ? hipErrorNoBinaryForGpu : read_kernels(elf, kernels, n);
}

/* Magic, number of entries, and for each entry: offset, size, length of its name, the name (hipv4-TRIPLE--ARCH). */
static hipError_t read_bundle(const char *bundle, const char *arch, HsKernel **kernels, unsigned *n)
{
    uint64_t n_entries;
    const char *at = bundle + 24;
    memcpy(&n_entries, at, 8);
    at += 8;
    for (uint64_t i = 0; i < n_entries; i++) {
        uint64_t entry[3];
        char name[128];
        memcpy(entry, at, sizeof(entry));
        at += sizeof(entry);
        snprintf(name, sizeof(name), "%.*s", (int)entry[2], at);
        at += entry[2];
        const char *target = strstr(name, "--gfx");
        if (target && !strncmp(target + 2, arch, strcspn(target + 2, ":")) && strlen(arch) == strcspn(target + 2, ":"))
            return read_elf(bundle + entry[0], arch, kernels, n);
    }
    return hipErrorNoBinaryForGpu;
}

hipError_t hs_read_code(const void *image, const char *arch, HsKernel **kernels, unsigned *n)
{
    if (!memcmp(image, ELFMAG, SELFMAG))
        return read_elf(image, arch, kernels, n);
    if (!strncmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24))
        return read_bundle(image, arch, kernels, n);
    return hs_complain(hipErrorInvalidImage, "neither a code object nor a bundle of them");
}
