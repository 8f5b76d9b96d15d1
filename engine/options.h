/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Option tables: defaults, parsing, key suffixes. A value lives in the metric's option struct at the option's offset, as
 * int (bool, int), double, or char * owned by the struct.
 */
#ifndef VG_OPTIONS_H
#define VG_OPTIONS_H

#include "engine/log.h"

/** Longest key, its terminating zero included; longer ones are cut, as libvmaf does. */
#define VG_KEY_SIZE 256

/** Fills an option struct with its defaults. Returns 0 or -ENOMEM. */
int vg_options_defaults(const VgOption *table, void *options);

/** Frees the strings of an option struct. */
void vg_options_free(const VgOption *table, void *options);

/**
 * Sets one option from text, by libvmaf's rules: text that is wholly a number is first rounded to binary32 and printed
 * with %g; integers drop their decimals; booleans are "true" or "false"; "-0" and words are no numbers.
 *
 * @return 0; -EINVAL after a message for an unknown name, a value that is not of the type, or one out of range; -ENOMEM
 */
int vg_option_set(const VgLog *log, const char *metric, const VgOption *table, void *options, const char *name,
                  const char *value);

/**
 * Writes the key suffix of an option set: of each option that is part of the key and differs from its default, sorted
 * by full name, "_ALIAS" for a boolean and "_ALIAS_VALUE" for others. Empty where there is none.
 */
void vg_options_suffix(const VgOption *table, const void *options, char suffix[VG_KEY_SIZE]);

/** Whether two option sets of one table hold the same values. */
int vg_options_equal(const VgOption *table, const void *a, const void *b);

/** Number of single-character edits that turn one name into the other: what "nearest name" means in refusals. */
unsigned vg_edit_distance(const char *a, const char *b);

#endif
