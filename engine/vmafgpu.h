/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * libvmafgpu: full-reference video quality scores, equal in every bit to those of libvmaf 3.2.0 (dB values: on a C library
 * with the same log10; see docs/numerics.md).
 *
 * This header is the whole interface of the library and its manual.
 *
 * How it is used
 * --------------
 *     VgScorerConfig config = VG_SCORER_CONFIG_INIT;
 *     config.geometry = (VgGeometry){ .width = 1920, .height = 1080, .chroma = VG_CHROMA_420, .bit_depth = 8 };
 *     config.features = "psnr|float_ssim|motion";
 *     VgScorer *scorer;
 *     int err = vg_scorer_create(&scorer, &config);
 *     for each pair of pictures {
 *         while ((err = vg_scorer_submit(scorer, &distorted, &reference)) == -EAGAIN)
 *             vg_scorer_collect(scorer, VG_WAIT_ONE);      // the ring is full: wait for its oldest frame
 *     }
 *     vg_scorer_flush(scorer);                             // waits for all frames, finishes temporal metrics
 *     vg_scorer_pool(scorer, key, VG_POOL_MEAN, &mean);
 *     vg_scorer_write_report(scorer, "scores.json", VG_REPORT_JSON, VG_PRECISION_LIBVMAF);
 *     vg_scorer_free(&scorer);
 *
 * Conventions
 * -----------
 * Errors    Functions that return int give 0 (or a count) on success, else a negative errno value. Each error is
 *           reported once, in words, through the log function at VG_LOG_ERROR, with the value that was wrong and what
 *           to do about it; exceptions (-EAGAIN, -ENOENT) are named at the function. A configuration whose size is
 *           less than any version's gives -EINVAL without a message: its log function is not known.
 * Pointers  must not be NULL unless it is said.
 * Threads   One scorer is used by one thread at a time. Different scorers are independent; they share one pool of
 *           worker threads. Callbacks run in the thread that called the library, inside that call; they must not call
 *           the library with the same scorer.
 * Frames    Frame indices count submitted pairs from 0. Input 1 is the distorted picture, input 2 the reference.
 * Structs   Public structs that callers fill begin with their size, so that a program built against an older header
 *           keeps working: fields beyond that size take their defaults. VgGeometry and VgOption stay as they are; what
 *           is added to an enumeration takes new values at its end (VG_N_POOLS and VG_N_REPORTS grow).
 * Strings   Returned strings belong to the library; they live as long as the object they were asked of.
 */
#ifndef VMAFGPU_H
#define VMAFGPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VG_API __attribute__((visibility("default")))
#else
#define VG_API
#endif

/* ---- Version ---------------------------------------------------------------------------------------------------- */

#define VG_VERSION_MAJOR 0
#define VG_VERSION_MINOR 1
#define VG_VERSION_PATCH 0

/** The release of libvmaf whose scores and logs this library reproduces; logs carry it in their version field. */
#define VG_LIBVMAF_VERSION "3.2.0"

/** Version of the library at run time: major * 10000 + minor * 100 + patch. */
VG_API unsigned vg_version(void);

/* ---- Log messages ----------------------------------------------------------------------------------------------- */

typedef enum VgLogLevel {
    VG_LOG_ERROR,   /**< something was refused or failed */
    VG_LOG_WARNING, /**< scores are made, but maybe not those that were meant */
    VG_LOG_INFO,    /**< what every user wants to see */
    VG_LOG_VERBOSE, /**< what was chosen: threads, instruction sets, sizes */
    VG_LOG_DEBUG
} VgLogLevel;

/** Receives one message, without a line break at its end. `opaque` is the pointer given beside the function. */
typedef void (*VgLogFn)(void *opaque, VgLogLevel level, const char *message);

/* ---- Where things happen ---------------------------------------------------------------------------------------- */

/** Where the samples of pictures are. */
typedef enum VgMemory {
    VG_MEMORY_HOST,
    VG_MEMORY_CUDA, /**< in the memory of an NVIDIA device; addresses are those of the driver (CUdeviceptr) */
    VG_MEMORY_HIP   /**< in the memory of an AMD device; addresses are those of the HIP runtime (hipDeviceptr_t) */
} VgMemory;

/** Who makes scores. Never changes one. */
typedef enum VgBackendKind {
    VG_BACKEND_AUTO, /**< the device whose memory holds the pictures; for pictures in host memory, the CPU */
    VG_BACKEND_CPU,  /**< pictures in device memory are downloaded */
    VG_BACKEND_CUDA, /**< pictures in host memory are uploaded, beside the kernels' work */
    VG_BACKEND_HIP   /**< the same, on AMD devices */
} VgBackendKind;

/** How temporal metrics keep earlier pictures in device memory; for pictures in host memory the choice is AUTO's. */
typedef enum VgHistory {
    VG_HISTORY_AUTO, /**< by reference; pictures in host memory are kept by what was uploaded, or by reference if the
                          CPU may read them, too (fallback, parity) */
    VG_HISTORY_REF,  /**< pictures are held longer: up to in_flight + look-back of each input */
    VG_HISTORY_COPY  /**< what is looked at again is copied on the device: up to in_flight pictures are held */
} VgHistory;

/** What happens when the device cannot do a request, or is not there when the scorer is made. */
typedef enum VgFallback {
    VG_FALLBACK_ERROR, /**< it is refused */
    VG_FALLBACK_CPU    /**< the CPU does it, with a warning that says why */
} VgFallback;

/** Whether this build of the library has such a back end (AUTO and CPU: always). Says nothing of this machine. */
VG_API int vg_backend_built_in(VgBackendKind kind);

/* ---- Pictures --------------------------------------------------------------------------------------------------- */

typedef enum VgChroma {
    VG_CHROMA_400, /**< luma only */
    VG_CHROMA_420, /**< chroma halved in both directions */
    VG_CHROMA_422, /**< chroma halved horizontally */
    VG_CHROMA_444
} VgChroma;

/** What all pictures of one scorer have in common. */
typedef struct VgGeometry {
    uint32_t width, height; /**< of luma, in samples: 1 to VG_MAX_SIDE */
    VgChroma chroma;
    uint32_t bit_depth; /**< of the content, 8 to 16 */
} VgGeometry;

/** Greatest width or height that is accepted. */
#define VG_MAX_SIDE 65536

/**
 * One picture, described in place: its samples are not copied and must not change until `release` is called; the struct
 * itself is copied and may be reused at once. One picture that is passed on both sides is released twice. Planar and semi-planar layouts are one description; NV12, for
 * example, has data[1] and data[2] one byte apart and a step of 2 in both.
 *
 * A sample's value is (word >> shift), where word is the native-endian 8- or 16-bit word at
 *     (const uint8_t *)data[c] + y * pitch[c] + x * step[c].
 * The value must be below 2^bit_depth. P010 has sample_bytes 2, shift 6; yuv420p10 has shift 0.
 *
 * Chroma planes of an odd-sized picture hold ceil(size / 2) samples, as FFmpeg lays them out. Metrics that read chroma
 * use the top left floor(size / 2), as libvmaf does.
 */
typedef struct VgPicture {
    size_t size;           /**< sizeof(VgPicture) */
    VgGeometry geometry;   /**< must equal the scorer's */
    uint32_t sample_bytes; /**< 1, or 2 (addresses and pitches must then be even) */
    uint32_t shift;        /**< shift + bit_depth <= 8 * sample_bytes */
    const void *data[3];   /**< first sample of Y, Cb, Cr; Cb and Cr are NULL for 4:0:0 */
    ptrdiff_t pitch[3];    /**< bytes from a row to the next below it; may be negative; below 2^31 either way */
    uint32_t step[3];      /**< bytes from a sample to the next on its right: a multiple of sample_bytes, up to 64 */
    void (*release)(void *ref); /**< called once when the samples are no longer needed; may be NULL */
    void *ref;                  /**< handed to `release`: what keeps the samples alive */
    VgMemory memory;            /**< must equal the scorer's; `data` are then addresses of that memory */
    /**
     * Device memory: the stream (CUstream, hipStream_t) in which the samples were or are being made; NULL is the default
     * stream. The scorer reads after what was enqueued there before the submit; nobody has to wait.
     */
    void *stream;
} VgPicture;

/* ---- Metrics and their options ---------------------------------------------------------------------------------- */

typedef enum VgOptionType { VG_OPTION_BOOL, VG_OPTION_INT, VG_OPTION_DOUBLE, VG_OPTION_STRING } VgOptionType;

/** The option is part of the key when its value is not the default ("in key" in the option reference). */
#define VG_OPTION_IN_KEY 1u
/** A string option that says where something is written: two features must not have the same value. */
#define VG_OPTION_OUTPUT 2u

/** One option of a metric. The same table drives parsing, refusals, key suffixes and the option reference. */
typedef struct VgOption {
    const char *name;
    const char *alias; /**< short form used in keys; NULL: the name serves. It is not accepted as a name */
    VgOptionType type;
    double value;     /**< default; booleans 0 or 1 */
    double min, max;  /**< allowed range of numbers, both included */
    const char *text; /**< default of a string option, else NULL */
    size_t offset;    /**< place of the value in the metric's option struct */
    unsigned flags;   /**< VG_OPTION_* */
    const char *help;
} VgOption;

/** A metric as users see it. */
typedef struct VgMetricInfo {
    const char *name;        /**< libvmaf's name of the extractor */
    const char *help;        /**< one sentence */
    const char *inputs;      /**< depths, chroma formats and sizes that it scores, in words */
    const VgOption *options; /**< ended by an entry whose name is NULL */
} VgMetricInfo;

/** Metric number `index`, or NULL past the last one. */
VG_API const VgMetricInfo *vg_metric_info(unsigned index);

/**
 * Key number `key` that metric number `index` can log, in order of columns, without suffix; *enabled_by becomes the options
 * without which it is not logged, in words, or NULL.
 *
 * @return the key's name, or NULL past the last one
 */
VG_API const char *vg_metric_key(unsigned index, unsigned key, const char **enabled_by);

/** The features that are scored when none are asked for. */
#define VG_DEFAULT_FEATURES "psnr|float_ssim|motion"

/**
 * Checks a feature string without a picture's geometry: names, options, ranges. NULL and "" are the default features. A scorer makes the same checks; this
 * function lets a program refuse early.
 *
 * The string is libvmaf's: features separated by '|', each "name=METRIC:OPTION=VALUE:...". Bare names ("psnr|motion",
 * "psnr:enable_mse=true") and the form of libvmaf's command line ("psnr=enable_mse=true") work too. Backslash and
 * single quotes protect special characters. Two requests of one metric whose keys agree are one: the first counts.
 *
 * @return 0, or -EINVAL after an error message that names the nearest valid name or the allowed range
 */
VG_API int vg_features_check(const char *features, VgLogFn log, void *log_opaque);

/* ---- Scorer ----------------------------------------------------------------------------------------------------- */

typedef struct VgScorer VgScorer;

typedef struct VgScorerConfig {
    size_t size; /**< sizeof(VgScorerConfig) */
    VgGeometry geometry;
    const char *features; /**< see vg_features_check(); NULL or "": VG_DEFAULT_FEATURES */
    uint32_t n_threads;   /**< tasks at once; 0: one per available CPU; above 256: 256. Never changes a score */
    uint32_t n_subsample; /**< score every Nth frame; 0 means 1. Temporal metrics and psnr still see every frame */
    uint32_t in_flight;   /**< frames being scored at once, 1 to VG_MAX_IN_FLIGHT; 0: 3 */
    VgLogFn log;          /**< NULL: messages are dropped */
    void *log_opaque;
    VgBackendKind backend;
    VgMemory memory; /**< of all pictures */
    /**
     * CUDA. With pictures in device memory: the context (CUcontext) that they belong to; required. With pictures in host
     * memory: a context to work in, or NULL for the primary context of `device`. It must live longer than the scorer.
     * HIP has no contexts: NULL.
     */
    void *device_context;
    /**
     * Without a context: index ("0") or PCI id ("0000:65:00.0"); NULL or "": the first one. Pictures in HIP's memory are in
     * that of this device. HIP's current device is left as it is.
     */
    const char *device;
    VgFallback fallback;
    VgHistory history;
    /**
     * Parity: every Nth frame is scored by the CPU reference, too, and the records compared byte for byte; 0: none. The
     * first difference is logged as an error, and counts at the flush; see vg_scorer_parity().
     */
    uint32_t parity_every;
} VgScorerConfig;

/* clang-format off */
#ifdef __cplusplus
#define VG_SCORER_CONFIG_INIT { sizeof(VgScorerConfig), {}, nullptr, 0, 0, 0, nullptr, nullptr, VG_BACKEND_AUTO, VG_MEMORY_HOST, nullptr, nullptr, VG_FALLBACK_ERROR, VG_HISTORY_AUTO, 0 }
#else
#define VG_SCORER_CONFIG_INIT { .size = sizeof(VgScorerConfig) }
#endif
/* clang-format on */
#define VG_MAX_IN_FLIGHT 16

/**
 * Makes a scorer. Strings of the configuration are copied.
 *
 * @return 0 and a scorer in *scorer; or, with *scorer NULL: -EINVAL for a geometry, feature or option that cannot be
 *         scored (the message says which and why), -ENOMEM, -EAGAIN if threads cannot be started; of a device: -ENOSYS
 *         for a back end that is not built in, -ENODEV without driver or device, -ENOMEM without memory, -EIO and others
 */
VG_API int vg_scorer_create(VgScorer **scorer, const VgScorerConfig *config);

/** Ends all work, releases all pictures and frees the scorer; *scorer becomes NULL. Both may be NULL. */
VG_API void vg_scorer_free(VgScorer **scorer);

/**
 * Hands over the next pair. Never waits for scores.
 *
 * On success the scorer owns both pictures' references and calls each picture's `release` once, inside a later call
 * (or this one). On failure they remain the caller's. At most in_flight + look-back pictures are held per input,
 * where look-back is 0 to 2, as vg_scorer_lookback() says: 0 if earlier pictures are copied rather than held.
 *
 * @return 0; -EAGAIN (not logged) when in_flight frames are under way: collect first; -EINVAL for a picture that does
 *         not fit the scorer's geometry or memory; -EPIPE (not logged) after vg_scorer_flush(); or the error of an
 *         earlier frame
 */
VG_API int vg_scorer_submit(VgScorer *scorer, const VgPicture *distorted, const VgPicture *reference);

typedef enum VgWait {
    VG_WAIT_NONE, /**< take what is finished, never wait */
    VG_WAIT_ONE,  /**< wait until the oldest frame is finished (no frame under way: return at once) */
    VG_WAIT_ALL   /**< wait until every submitted frame is finished */
} VgWait;

/**
 * Takes finished frames in order: releases pictures and stores scores.
 *
 * @return number of frames taken, or a negative error
 */
VG_API int vg_scorer_collect(VgScorer *scorer, VgWait wait);

/**
 * Ends the sequence: waits for every frame and computes what needs the last frame. May be called again without effect.
 * Afterwards no pair can be submitted.
 */
VG_API int vg_scorer_flush(VgScorer *scorer);

/** Number of pairs handed over so far. */
VG_API uint64_t vg_scorer_submitted(const VgScorer *scorer);

/** Number of leading frames, from 0, whose scores are all stored and final; after a successful flush all are. */
VG_API uint64_t vg_scorer_final(const VgScorer *scorer);

/** Frames after frame n that must be submitted before all scores of n can be final (0 to 2). */
VG_API unsigned vg_scorer_lookahead(const VgScorer *scorer);

/** Earlier frames whose pictures are held for temporal metrics (0 to 2); 0 where the device keeps copies. */
VG_API unsigned vg_scorer_lookback(const VgScorer *scorer);

/**
 * What parity has found so far: the number of records (one a frame and pixel pass) that differed; *compared becomes the
 * number of those that were compared. Both are 0 without parity.
 */
VG_API uint64_t vg_scorer_parity(const VgScorer *scorer, uint64_t *compared);

/* ---- Scores ----------------------------------------------------------------------------------------------------- */

/** Number of keys, in the column order of libvmaf's logs. Keys exist from the scorer's creation on. */
VG_API unsigned vg_scorer_n_keys(const VgScorer *scorer);

/** Name of key `key` as logged (e.g. "psnr_y"), or NULL past the last one. */
VG_API const char *vg_scorer_key(const VgScorer *scorer, unsigned key);

/**
 * One score. NaN and infinities are legal scores.
 *
 * @return 0, or -ENOENT (not logged) while or where there is none
 */
VG_API int vg_scorer_score(const VgScorer *scorer, unsigned key, uint64_t frame, double *value);

typedef enum VgPool { VG_POOL_MIN, VG_POOL_MAX, VG_POOL_MEAN, VG_POOL_HARMONIC_MEAN, VG_N_POOLS } VgPool;

/** "min", "max", "mean", "harmonic_mean"; NULL for another value. */
VG_API const char *vg_pool_name(VgPool pool);

/**
 * Pools a key over all submitted frames (with subsampling: over every Nth), in double and in frame order.
 * The harmonic mean is m / sum(1 / (s + 1)) - 1, libvmaf's guard against scores of zero.
 *
 * @return 0, or -ENOENT (not logged) when a frame lacks the score or there is no frame
 */
VG_API int vg_scorer_pool(const VgScorer *scorer, unsigned key, VgPool pool, double *value);

/** Aggregates: scores of the whole clip (psnr's apsnr_y, ...), known after the flush. */
VG_API unsigned vg_scorer_n_aggregates(const VgScorer *scorer);

/**
 * Name and value of aggregate number `index`.
 *
 * @return 0, or -ENOENT (not logged) past the last one and before the flush; the name is set if there is one
 */
VG_API int vg_scorer_aggregate(const VgScorer *scorer, unsigned index, const char **name, double *value);

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

typedef enum VgReport { VG_REPORT_XML, VG_REPORT_JSON, VG_REPORT_CSV, VG_REPORT_SUB, VG_N_REPORTS } VgReport;

/** "xml", "json", "csv", "sub"; NULL for another value. */
VG_API const char *vg_report_name(VgReport format);

/** Number formats: libvmaf's own (%.6f, rarely %.16f), or every double in full (%.17g). */
#define VG_PRECISION_LIBVMAF 6
#define VG_PRECISION_FULL    17

/** Room for the text of any score. */
#define VG_NUMBER_SIZE 336

/** Text of a score as logs show it, with a decimal point in any locale; "nan", "-nan", "inf", "-inf" as printf has it. */
VG_API void vg_number_text(double value, int precision, char text[VG_NUMBER_SIZE]);

/**
 * Checks that a report could be written to `path`: its folder exists and is writable, it is not a folder itself.
 * Creates nothing.
 *
 * @return 0, -EINVAL for an empty path, or the error of the file system
 */
VG_API int vg_report_check(const char *path, VgLogFn log, void *log_opaque);

/**
 * Writes libvmaf's log, byte for byte (its fps field holds our frames per second of wall-clock time). A regular or
 * absent file is written under a temporary name beside it and renamed, so that it is never seen half-written and an
 * existing file survives a full disk; pipes, devices and links are written in place, and so is a file in a folder that
 * takes no new ones. Before the flush it holds the scores stored so far, and pools of complete columns only.
 *
 * @return 0; -EINVAL for an unknown format or precision; or the error of the file system
 */
VG_API int vg_scorer_write_report(const VgScorer *scorer, const char *path, VgReport format, int precision);

/**
 * Prints a table of all keys with minimum, mean, harmonic mean and maximum, and the aggregates, for people. Lines are handed
 * to the log function at VG_LOG_INFO. `pool` marks the column that a user asked for.
 */
VG_API void vg_scorer_print_summary(const VgScorer *scorer, VgPool pool);

#ifdef __cplusplus
}
#endif

#endif /* VMAFGPU_H */
