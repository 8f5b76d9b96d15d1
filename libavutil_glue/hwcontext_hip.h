/*
 * Copyright (c) 2026 the vmaf_gpu authors
 *
 * Redistribution and use in source and binary forms, with or without
 * modification, are permitted provided that the following conditions are met:
 *
 * 1. Redistributions of source code must retain the above copyright notice, this
 *    list of conditions and the following disclaimer.
 *
 * 2. Redistributions in binary form must reproduce the above copyright notice,
 *    this list of conditions and the following disclaimer in the documentation
 *    and/or other materials provided with the distribution.
 *
 * THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
 * AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
 * IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
 * DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
 * FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
 * DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
 * SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
 * CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
 * OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
 * OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
 */

/**
 * @file
 * Devices of type AV_HWDEVICE_TYPE_HIP: AMD GPUs, through ROCm's HIP runtime. It is opened at run time
 * (libamdhip64.so.7, .6, .5), so a program that makes no such device does not need it.
 *
 * Frames have the format AV_PIX_FMT_HIP: data[i] is the address on the device of plane i, linesize[i] its pitch in bytes;
 * planes are laid out as sw_format says, and have the pitches and the order that the frame says: trust nothing but data[]
 * and linesize[]. sw_format can be every format of whole native-endian bytes or words without a palette.
 *
 * A pool of the user's (AVHWFramesContext.pool) must deliver buffers whose data is an address on the device and whose size
 * is at least av_image_get_buffer_size(sw_format, width, height, AV_HIP_ALIGNMENT).
 *
 * Work on frames is enqueued in the device's stream: whoever reads a frame elsewhere lets that wait for the stream (by
 * an event), and whoever writes one enqueues there, or has finished. Uploads and downloads have finished when
 * av_hwframe_transfer_data() returns; copies on the device are enqueued.
 *
 * AV_PIX_FMT_HIP stands at the end of FFmpeg's list of pixel formats: its value differs between releases, and a newer one may give it
 * to another format. A program that can meet another libavutil than it was compiled for asks av_get_pix_fmt("hip").
 */

#ifndef AVUTIL_HWCONTEXT_HIP_H
#define AVUTIL_HWCONTEXT_HIP_H

/** Alignment of planes and pitches in frames that are allocated here, in bytes. */
#define AV_HIP_ALIGNMENT 256

/** Allocated as AVHWDeviceContext.hwctx. */
typedef struct AVHIPDeviceContext {
    /**
     * Index of the device, as HIP counts (HIP_VISIBLE_DEVICES hides and renumbers). Set by av_hwdevice_ctx_create(), or by
     * the user before av_hwdevice_ctx_init(). No thread's current device is changed.
     */
    int device;

    /**
     * Stream (hipStream_t) on that device in which frames are made; NULL is its default stream. The user's may be set
     * before av_hwdevice_ctx_init(), and must live longer than the device context and its frames.
     */
    void *stream;

    /** Name and PCI id for messages, e.g. "AMD Radeon RX 7900 XTX (0000:03:00.0)": set by av_hwdevice_ctx_init(). */
    const char *description;
} AVHIPDeviceContext;

#endif /* AVUTIL_HWCONTEXT_HIP_H */
