/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The images as data: see image.h. VG_PTX and VG_CUBIN are the files; either may be missing. VG_HIP is a file with a line
 * "hip TARGET, PATH" for each AMD target.
 */
    .section .rodata, "a", %progbits

    .macro image name, size
    .globl \name
    .hidden \name
    .globl \size
    .hidden \size
    .balign 4096
    .endm

    image vg_image_ptx, vg_image_ptx_size
vg_image_ptx:
#ifdef VG_PTX
    .incbin VG_PTX
#endif
1:  .byte 0
    .balign 8
vg_image_ptx_size:
    .quad 1b - vg_image_ptx

    image vg_image_cubin, vg_image_cubin_size
vg_image_cubin:
#ifdef VG_CUBIN
    .incbin VG_CUBIN
#endif
2:  .byte 0
    .balign 8
vg_image_cubin_size:
    .quad 2b - vg_image_cubin

    /* The table is written to by the dynamic linker, what it points to is not. */
    .macro hip target, path
    .pushsection .rodata
    .balign 16
8:  .incbin "\path"
9:  .balign 8
7:  .asciz "\target"
    .popsection
    .balign 8
    .quad 7b, 8b, 9b - 8b
    .endm

    .section .data.rel.ro, "aw", %progbits
    .globl vg_images_hip
    .hidden vg_images_hip
    .balign 8
vg_images_hip:
#ifdef VG_HIP
#include VG_HIP
#endif
    .quad 0, 0, 0

    .section .note.GNU-stack, "", %progbits
