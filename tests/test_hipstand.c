/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The HIP stand-in itself: what it takes for a code object and what not, launches that do not fit their kernel, external
 * memory, each thread's current device, failures made to order. Code objects are made here, of the few bytes that matter.
 */
#include "tests/cmocka_includes.h"

#include "tests/hipstand/hipstand.h"
#include "tests/hipstand/internal.h"
#include "tests/softgpu/gpu_host.h"
#include "tests/softgpu/softgpu.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OK(call) assert_int_equal((call), hipSuccess)

/* Misuse is an error that is explained. */
#define WRONG(call, error)                                                                                             \
    do {                                                                                                               \
        const unsigned long before_ = hipstand_complaints();                                                           \
        assert_int_equal((call), error);                                                                               \
        assert_int_equal(hipstand_complaints(), before_ + 1);                                                          \
    } while (0)

enum { BLOCK = 32 };

typedef struct AddArgs {
    uint64_t at;
    uint32_t add, unused;
} AddArgs;

GPU_KERNEL(standin_add, AddArgs, BLOCK)
{
    ((uint32_t *)(uintptr_t)args.at)[gpu_tid(0)] += args.add;
}

/* ---- Code objects ------------------------------------------------------------------------------------------------ */

/* A linked code object with one kernel. */
typedef struct Code {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    Elf64_Shdr sections[3];
    Elf64_Sym symbols[2];
    char names[32];
    struct {
        uint32_t local_memory, private_memory, args_size, reserved;
        int64_t entry;
        uint8_t reserved2[32];
        uint16_t properties, reserved3[3];
    } descriptor;
} Code;

enum { GFX1100 = 0x41, GFX90A = 0x3f };

static Code code_for(unsigned flag, int wave)
{
    Code c = {
        .header = { .e_ident = { 0x7f, 'E', 'L', 'F', [EI_CLASS] = ELFCLASS64, [EI_OSABI] = 64, [EI_ABIVERSION] = 2 },
                    .e_type = ET_DYN,
                    .e_machine = 224,
                    .e_flags = flag,
                    .e_phoff = offsetof(Code, segment),
                    .e_phnum = 1,
                    .e_shoff = offsetof(Code, sections),
                    .e_shnum = 3 },
        .segment = { .p_type = PT_LOAD, .p_filesz = sizeof(Code) },
        .sections = { [1] = { .sh_type = SHT_DYNSYM,
                              .sh_link = 2,
                              .sh_offset = offsetof(Code, symbols),
                              .sh_size = 2 * sizeof(Elf64_Sym) },
                      [2] = { .sh_type = SHT_STRTAB, .sh_offset = offsetof(Code, names) } },
        .symbols = { [1] = { .st_name = 1, .st_value = offsetof(Code, descriptor), .st_size = 64 } },
        .names = "\0standin_add.kd",
        .descriptor = { .local_memory = 1024,
                        .args_size = sizeof(AddArgs),
                        .properties = (uint16_t)(wave == 32 ? 1 << 10 : 0) },
    };
    return c;
}

/* A bundle with entries for the host and for this target, as clang writes it. */
static void bundle_of(const Code *code, const char *target, uint8_t *to)
{
    static const char host[] = "host-x86_64-unknown-linux--";
    char name[64];
    uint8_t *at = to;
    snprintf(name, sizeof(name), "hipv4-amdgcn-amd-amdhsa--%s", target);
    const uint64_t n = 2, first[3] = { 4096, 0, sizeof(host) - 1 }, second[3] = { 4096, sizeof(*code), strlen(name) };
    memcpy(at, "__CLANG_OFFLOAD_BUNDLE__", 24);
    memcpy(at += 24, &n, 8);
    memcpy(at += 8, first, 24);
    memcpy(at += 24, host, sizeof(host) - 1);
    memcpy(at += sizeof(host) - 1, second, 24);
    memcpy(at += 24, name, strlen(name));
    memcpy(to + 4096, code, sizeof(*code));
}

static void code_objects_are_looked_at(void **state)
{
    (void)state;
    hipModule_t module;
    hipFunction_t function;
    Code code = code_for(GFX1100, 32), other = code_for(GFX90A, 64);
    hipstand_set_arch("gfx1100");
    OK(hipModuleLoadData(&module, &code));
    OK(hipModuleGetFunction(&function, module, "standin_add"));
    WRONG(hipModuleGetFunction(&function, module, "standin_ad"), hipErrorNotFound);
    WRONG(hipModuleGetFunction(&function, module, "standin_add.kd"), hipErrorNotFound);
    OK(hipModuleUnload(module));
    assert_int_equal(hipModuleLoadData(&module, &other), hipErrorNoBinaryForGpu);
    hipstand_set_arch("gfx90a:sramecc+:xnack-");
    OK(hipModuleLoadData(&module, &other));
    WRONG(hipModuleGetFunction(&function, module, "standin_add"), hipErrorInvalidDeviceFunction); /* waves of 64 */
    OK(hipModuleUnload(module));
    softgpu_set_wave(64);
    OK(hipModuleLoadData(&module, &other));
    OK(hipModuleGetFunction(&function, module, "standin_add"));
    OK(hipModuleUnload(module));
    softgpu_set_wave(32);
    hipstand_set_arch("gfx1100");

    Code bad = code;
    bad.header.e_machine = EM_X86_64;
    WRONG(hipModuleLoadData(&module, &bad), hipErrorInvalidImage);
    bad = code;
    bad.header.e_type = ET_REL; /* not linked */
    WRONG(hipModuleLoadData(&module, &bad), hipErrorInvalidImage);
    bad = code;
    bad.header.e_ident[EI_ABIVERSION] = 9;
    WRONG(hipModuleLoadData(&module, &bad), hipErrorInvalidImage);
    bad = code;
    bad.sections[1].sh_type = SHT_NULL;
    WRONG(hipModuleLoadData(&module, &bad), hipErrorInvalidImage);
    bad = code;
    bad.symbols[1].st_value = sizeof(code) - 8; /* beyond the end */
    WRONG(hipModuleLoadData(&module, &bad), hipErrorInvalidImage);
    WRONG(hipModuleLoadData(&module, ".version 6.3\n                    "), hipErrorInvalidImage);
    assert_int_equal(hipModuleLoadData(&module, NULL), hipErrorInvalidValue);
}

static void bundles_are_looked_into(void **state)
{
    static uint8_t bundle[8192];
    (void)state;
    hipModule_t module;
    const Code code = code_for(GFX1100, 32);
    hipstand_set_arch("gfx1100");
    bundle_of(&code, "gfx1100", bundle);
    OK(hipModuleLoadData(&module, bundle));
    OK(hipModuleUnload(module));
    bundle_of(&code, "gfx110", bundle);
    assert_int_equal(hipModuleLoadData(&module, bundle), hipErrorNoBinaryForGpu);
    bundle_of(&code, "gfx11000", bundle);
    assert_int_equal(hipModuleLoadData(&module, bundle), hipErrorNoBinaryForGpu);
    hipstand_set_arch("gfx90a:xnack-");
    bundle_of(&code, "gfx90a", bundle); /* whose code is another's */
    assert_int_equal(hipModuleLoadData(&module, bundle), hipErrorNoBinaryForGpu);
}

/* Some runtimes read a code object as long as its module is there. */
static void images_must_outlive_their_modules(void **state)
{
    (void)state;
    hipModule_t module;
    hipFunction_t function;
    Code code = code_for(GFX1100, 32);
    hipstand_set_arch("gfx1100");
    OK(hipModuleLoadData(&module, &code));
    memset(&code, 0xdd, sizeof(code));
    WRONG(hipModuleGetFunction(&function, module, "standin_add"), hipErrorInvalidImage);
    OK(hipModuleUnload(module));
}

static hipError_t add(hipFunction_t function, void *at, size_t size, uintptr_t end, unsigned shared)
{
    AddArgs args = { (uintptr_t)at, 5, 0 };
    void *extra[] = { (void *)1, &args, (void *)2, &size, (void *)end };
    return hipModuleLaunchKernel(function, 1, 1, 1, BLOCK, 1, 1, shared, NULL, NULL, extra);
}

static void launches_must_fit_the_kernel(void **state)
{
    (void)state;
    hipModule_t module;
    hipFunction_t function;
    void *at;
    uint32_t values[BLOCK];
    const Code code = code_for(GFX1100, 32);
    hipstand_set_arch("gfx1100");
    OK(hipModuleLoadData(&module, &code));
    OK(hipModuleGetFunction(&function, module, "standin_add"));
    OK(hipMalloc(&at, sizeof(values)));
    OK(hipMemsetD8Async(at, 0, sizeof(values), NULL));
    OK(add(function, at, sizeof(AddArgs), 3, 0));
    OK(add(function, at, sizeof(AddArgs), 3, 63 << 10));                   /* unasked; the kernel itself has 1 KiB */
    WRONG(add(function, at, sizeof(AddArgs), 0, 0), hipErrorInvalidValue); /* CUDA's end */
    WRONG(add(function, at, sizeof(AddArgs) - 4, 3, 0), hipErrorInvalidValue);
    WRONG(add(function, at, sizeof(AddArgs), 3, (63 << 10) + 4), hipErrorInvalidValue);
    void *nothing[] = { (void *)3 };
    WRONG(hipModuleLaunchKernel(function, 1, 1, 1, BLOCK, 1, 1, 0, NULL, NULL, nothing), hipErrorInvalidValue);
    OK(hipMemcpyDtoH(values, at, sizeof(values)));
    for (int i = 0; i < BLOCK; i++)
        assert_int_equal(values[i], 10);
    OK(hipFree(at));
    OK(hipModuleUnload(module));
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void external_memory_is_the_file_itself(void **state)
{
    enum { SIZE = 10000, AT = 5000 };
    (void)state;
    hipExternalMemory_t memory;
    void *buffer, *copy;
    char text[8] = "";
    const int fd = memfd_create("surface", 0);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    hipExternalMemoryHandleDesc desc = { .type = hipExternalMemoryHandleTypeOpaqueFd, .handle.fd = fd, .size = SIZE };
    hipExternalMemoryBufferDesc whole = { .size = SIZE };
    const size_t live = softgpu_live_objects();
    OK(hipImportExternalMemory(&memory, &desc));
    OK(hipExternalMemoryGetMappedBuffer(&buffer, memory, &whole));
    assert_int_equal(pwrite(fd, "pixels", 6, AT), 6); /* the descriptor is still ours */
    close(fd);
    OK(hipMalloc(&copy, 8));
    OK(hipMemcpyDtoDAsync(copy, (char *)buffer + AT, 6, NULL));
    OK(hipMemcpyDtoH(text, copy, 6));
    assert_string_equal(text, "pixels");
    WRONG(
        hipExternalMemoryGetMappedBuffer(&buffer, memory, &(hipExternalMemoryBufferDesc){ .offset = 1, .size = SIZE }),
        hipErrorInvalidValue);
    OK(hipFree(copy));
    OK(hipFree(buffer));
    OK(hipDestroyExternalMemory(memory));
    assert_int_equal(softgpu_live_objects(), live);
    WRONG(hipDestroyExternalMemory(memory), hipErrorInvalidHandle);

    WRONG(hipImportExternalMemory(&memory, &desc), hipErrorInvalidValue); /* closed */
    desc.handle.fd = memfd_create("small", 0);
    assert_int_equal(ftruncate(desc.handle.fd, SIZE - 1), 0);
    WRONG(hipImportExternalMemory(&memory, &desc), hipErrorInvalidValue);
    desc.type = 4;
    WRONG(hipImportExternalMemory(&memory, &desc), hipErrorInvalidValue);
    close(desc.handle.fd);
    assert_int_equal(softgpu_live_objects(), live);
}

static void rows_are_copied_every_way(void **state)
{
    (void)state;
    uint8_t from[6 * 16], back[6 * 10];
    void *a, *b;
    size_t pitch;
    for (unsigned i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)i;
    OK(hipMallocPitch(&a, &pitch, 10, 6));
    OK(hipMalloc(&b, sizeof(back)));
    OK(hipMemcpy2DAsync(a, pitch, from, 16, 10, 6, hipMemcpyHostToDevice, NULL));
    OK(hipMemcpy2DAsync(b, 10, a, pitch, 10, 6, hipMemcpyDeviceToDevice, NULL));
    OK(hipMemcpy2D(back, 10, b, 10, 10, 6, hipMemcpyDeviceToHost));
    for (int y = 0; y < 6; y++)
        assert_memory_equal(back + 10 * y, from + 16 * y, 10);
    WRONG(hipMemcpy2D(back, 9, b, 10, 10, 6, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    WRONG(hipMemcpy2D(back, 10, b, 10, 10, 6, (hipMemcpyKind)7), hipErrorInvalidValue);
    OK(hipFree(b));
    OK(hipFree(a));
    OK(hipMalloc(&b, 0)); /* no error in HIP */
    assert_null(b);
    OK(hipFree(b));
}

/* ---- Devices, failures ------------------------------------------------------------------------------------------- */

static void *other_thread(void *device)
{
    hipGetDevice(device);
    hipSetDevice(0);
    return NULL;
}

static void each_thread_has_a_device(void **state)
{
    (void)state;
    pthread_t thread;
    int theirs = -1, ours = -1;
    OK(hipSetDevice(1));
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &theirs), 0);
    pthread_join(thread, NULL);
    OK(hipGetDevice(&ours));
    assert_int_equal(theirs, 0);
    assert_int_equal(ours, 1);
    assert_int_equal(hipSetDevice(2), hipErrorInvalidDevice);
    assert_int_equal(hipSetDevice(-1), hipErrorInvalidDevice);
    /* What is allocated is that device's. */
    size_t free_before, free_after, total;
    void *at;
    OK(hipMemGetInfo(&free_before, &total));
    OK(hipMalloc(&at, 1 << 20));
    OK(hipMemGetInfo(&free_after, &total));
    assert_true(free_before - free_after >= 1 << 20);
    OK(hipSetDevice(0));
    OK(hipMemGetInfo(&free_after, &total));
    assert_true(free_after > free_before - (1 << 20));
    OK(hipSetDevice(1));
    OK(hipFree(at));
    OK(hipSetDevice(0));
}

static void calls_fail_to_order(void **state)
{
    (void)state;
    int device;
    void *at;
    const unsigned long calls = hipstand_calls();
    hipstand_fail_at(2, hipErrorUnknown);
    OK(hipGetDevice(&device));
    assert_int_equal(hipGetDevice(&device), hipErrorUnknown);
    OK(hipGetDevice(&device));
    assert_int_equal(hipstand_calls(), calls + 3);
    /* What releases does so all the same. */
    const size_t live = softgpu_live_objects();
    OK(hipMalloc(&at, 100));
    hipstand_fail_call("hipFree", 1, hipErrorIllegalAddress);
    assert_int_equal(hipFree(at), hipErrorIllegalAddress);
    assert_int_equal(softgpu_live_objects(), live);
    assert_int_equal(hipMalloc(&at, 100), hipErrorIllegalAddress); /* the device is no more */
    OK(hipGetDevice(&device));                                     /* which asks no device */
    hipstand_fail_at(0, 0);
    OK(hipMalloc(&at, 100));
    OK(hipFree(at));
    assert_string_equal(hipGetErrorName(hipErrorNoBinaryForGpu), "hipErrorNoBinaryForGpu");
    assert_string_equal(hipGetErrorName((hipError_t)12345), "hipErrorUnknown");
}

int main(void)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_objects_are_looked_at),         cmocka_unit_test(bundles_are_looked_into),
        cmocka_unit_test(images_must_outlive_their_modules),  cmocka_unit_test(launches_must_fit_the_kernel),
        cmocka_unit_test(external_memory_is_the_file_itself), cmocka_unit_test(rows_are_copied_every_way),
        cmocka_unit_test(each_thread_has_a_device),           cmocka_unit_test(calls_fail_to_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
