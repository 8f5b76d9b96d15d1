/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * All kernels, for one image.
 */

#include "kernels/cambi.c"
#include "kernels/cambi_pool.c"
#include "kernels/float_ssim.c"
#include "kernels/motion.c"
#include "kernels/psnr.c"
#include "kernels/speed.c"
