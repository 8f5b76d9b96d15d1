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
 * The options of the filter vmaf_gpu: one table, from which its AVOptions, its help and the option reference are made.
 * It needs no other header.
 */

#ifndef AVFILTER_VMAF_GPU_OPTIONS_H
#define AVFILTER_VMAF_GPU_OPTIONS_H

#include <limits.h>

/**
 * Expands to one macro call an option, in the order of the help:
 *
 * TEXT(name, help)                     any text; not given by default
 * CHOICE(name, default, help)          one of the values that follow it; default NULL: not given
 * VALUE(option, value, help)           a value of the CHOICE above
 * NUMBER(name, default, min, max, help)  an integer, both bounds included
 * FLAG(name, default, help)            0 or 1; default -1: not given
 *
 * Values of a CHOICE stand in the order of the enumeration that they select.
 */
#define VMAF_GPU_OPTIONS(TEXT, CHOICE, VALUE, NUMBER, FLAG)                                                            \
    TEXT(feature, "metrics, separated by '|', with their options; not given: psnr|float_ssim|motion")                  \
    TEXT(model, "VMAF models (not built in yet: only the empty string is accepted)")                                   \
    TEXT(log_path, "file that the log with the scores of every frame is written to")                                   \
    CHOICE(log_fmt, "xml", "format of the log")                                                                        \
    VALUE(log_fmt, "xml", "XML, as libvmaf writes it")                                                                 \
    VALUE(log_fmt, "json", "JSON, as libvmaf writes it")                                                               \
    VALUE(log_fmt, "csv", "comma-separated values, scores of frames only")                                             \
    VALUE(log_fmt, "sub", "MicroDVD subtitles, scores of frames only")                                                 \
    CHOICE(log_precision, "6", "numbers of log and metadata")                                                          \
    VALUE(log_precision, "6", "six decimals, as libvmaf writes them")                                                  \
    VALUE(log_precision, "17", "every digit: 17 significant ones, for comparing bits")                                 \
    CHOICE(pool, "mean", "column of the summary that is marked")                                                       \
    VALUE(pool, "min", "smallest score")                                                                               \
    VALUE(pool, "max", "greatest score")                                                                               \
    VALUE(pool, "mean", "arithmetic mean")                                                                             \
    VALUE(pool, "harmonic_mean", "harmonic mean, guarded against scores of zero as in libvmaf")                        \
    NUMBER(n_threads, 0, 0, INT_MAX, "threads that compute scores; 0: one per CPU")                                    \
    NUMBER(n_subsample, 1, 1, INT_MAX, "score every Nth pair of frames")                                               \
    CHOICE(pair, "nearest", "which reference frame a distorted frame is compared with")                                \
    VALUE(pair, "nearest", "the nearest in time, within half a frame, each used once")                                 \
    VALUE(pair, "index", "the one of the same number, whatever the time stamps")                                       \
    VALUE(pair, "framesync", "the latest that is not later, repeated where needed, as in FFmpeg's libvmaf filter")     \
    FLAG(strict, 0,                                                                                                    \
         "end with an error if frames had no partner, streams an offset or other rates, or nothing was scored")        \
    CHOICE(backend, "auto", "where scores are computed")                                                               \
    VALUE(backend, "auto", "where the frames are")                                                                     \
    VALUE(backend, "cpu", "on the CPU")                                                                                \
    VALUE(backend, "cuda", "on an NVIDIA GPU; software frames are uploaded")                                           \
    VALUE(backend, "hip", "on an AMD GPU; software frames are uploaded")                                               \
    TEXT(                                                                                                              \
        device,                                                                                                        \
        "with backend=cuda or hip and software frames: index or PCI id of the GPU; not given: ffmpeg's, or the first") \
    CHOICE(fallback, "error", "what happens when the device cannot do a request, or is not there")                     \
    VALUE(fallback, "error", "it is refused")                                                                          \
    VALUE(fallback, "cpu", "the CPU does it, and a warning says why")                                                  \
    CHOICE(parity, "off", "compare what the device computes with the CPU, bit for bit")                                \
    VALUE(parity, "off", "no comparison")                                                                              \
    VALUE(parity, "check", "report the first difference and the number of all")                                        \
    VALUE(parity, "strict", "the same; end with an error if there was one")                                            \
    NUMBER(parity_every, 1, 1, INT_MAX, "with parity: compare every Nth pair of frames")                               \
    NUMBER(in_flight, 3, 1, 16, "pairs of frames that are scored at once")                                             \
    CHOICE(history, "auto", "how temporal metrics keep earlier hardware frames; software frames are kept as uploaded") \
    VALUE(history, "auto", "copy with hardware frames on FFmpeg 5.1, whose decoders have few surfaces, else ref")      \
    VALUE(history, "ref", "their frames are held")                                                                     \
    VALUE(history, "copy", "the planes that are needed are copied on the device")                                      \
    FLAG(metadata, 0, "attach the scores to the frames as lavfi.vmaf_gpu.KEY")                                         \
    NUMBER(bit_depth, 0, 0, 16, "true depth, 8 to 16, of samples in the upper bits of a wider format; 0: its own")     \
    CHOICE(eof_action, NULL, "with pair=framesync: what happens when the reference ends; not given: repeat")           \
    VALUE(eof_action, "repeat", "its last frame is repeated")                                                          \
    VALUE(eof_action, "endall", "both inputs end")                                                                     \
    VALUE(eof_action, "pass", "distorted frames pass unscored")                                                        \
    FLAG(shortest, -1, "end with the shorter input; what the longer one has more is not looked at")                    \
    FLAG(repeatlast, -1, "with pair=framesync: repeat the last reference frame; not given: 1")                         \
    CHOICE(ts_sync_mode, NULL, "with pair=framesync: how time stamps are matched; not given: default")                 \
    VALUE(ts_sync_mode, "default", "the latest reference frame that is not later")                                     \
    VALUE(ts_sync_mode, "nearest", "the nearest reference frame")

#endif /* AVFILTER_VMAF_GPU_OPTIONS_H */
