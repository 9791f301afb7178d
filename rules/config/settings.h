/* The table of settings: what the configuration file may hold. Reading, defaults, bounds, printing,
 * the record in `spillway.rules` and docs/configuration.md all follow it. The rows are in
 * settings.def. */
#pragma once

#include "protocol/bytes.h"

enum setting_kind {
	SETTING_SECTION,   /* a mapping of the settings below it; where it has a place of its own, a
			      bool: it is there */
	SETTING_LIST,      /* of such mappings, as a BSON array; a function of its own reads it */
	SETTING_TEXT,      /* char *: not empty, without control characters */
	SETTING_TEXTS,     /* char **: a list of such texts, ends with NULL; NULL if it is empty */
	SETTING_FIELD,     /* char *: a document's field on the top level */
	SETTING_ADDRESS,   /* char *: host:port */
	SETTING_NAMESPACE, /* char *database, char *collection; a function of its own reads it */
	SETTING_COUNT,     /* int64_t */
	SETTING_SIZE,      /* int64_t: bytes */
	SETTING_DURATION,  /* int64_t: milliseconds */
	SETTING_SHARE,     /* int64_t: millionths, written as a decimal fraction */
	SETTING_CHOICE,    /* an enum: the place of the word */
	SETTING_SWITCH,    /* bool: whether it is the second of two words */
	SETTING_SET,       /* a bool for each word: whether the list has it; read like a list */
	SETTING_VALUE,     /* struct rule_value: any scalar; `absent` unless it is required */
	SETTING_KEYS,      /* an index's fields; read with the list that they are in */
};

enum setting_change {
	SETTING_FREE,    /* nothing that is stored depends on it */
	SETTING_ADAPTED, /* what is stored can be brought to the new value */
	SETTING_UNDO,    /* split documents would not be found: serve refuses to start */
};

struct range {
	int64_t least;
	int64_t most;
};

struct setting {
	const char *path; /* keys with dots between them; a rule's begin with "rules." */
	enum setting_kind kind;
	size_t offset; /* of its value in the struct, or SETTING_NOWHERE */
	enum setting_change change;
	struct range range;
	int64_t standard;         /* the default of numbers and words */
	const char *const *words; /* ends with NULL */
	const char *recorded;     /* NULL: the record has no field of its own for it */
	const char *brief;        /* a section's key that may stand for the section; NULL: none */
	bool required;
	bool off;     /* may be the word `off`: 0 or NULL; a section: nothing of it */
	bool batches; /* goes with `layout: batches` */
	bool restart; /* a running Spillway does not take another value */
};

#define SETTING_NOWHERE SIZE_MAX

/* Ends with a row without a path. */
extern const struct setting settings[];

/* The last part of its path. */
const char *setting_key(const struct setting *setting);
/* Whether it stands in the section of this path itself, not deeper. */
bool setting_is_in(const struct setting *setting, const char *path);

/* Where its value is in the struct that `base` points to. */
static inline void *setting_at(const struct setting *setting, void *base)
{
	return (uint8_t *)base + setting->offset;
}
static inline const void *setting_in(const struct setting *setting, const void *base)
{
	return (const uint8_t *)base + setting->offset;
}

/* The setting of the section that its brief form gives; NULL if it has no brief form. */
const struct setting *setting_brief(const struct setting *section);

/* Gives all settings below `path` in the struct their defaults. */
void settings_fill(const char *path, void *base);
/* Whether the struct has it. A section without a place of its own: whether the struct has a text or
 * number of it. */
bool setting_is_set(const struct setting *setting, const void *base);
/* Its value as the file would have it, without quotes; `scratch` keeps what must be put together.
 * Only of kinds that are one text, number or word. */
const char *setting_text(const struct setting *setting, const void *base, struct buffer *scratch);

/* The number that a text stands for, by the kind's units; INT64_MAX if it is larger. False if the
 * text is no number with a unit. A size may lack the unit: then it is in bytes. */
must_check bool setting_measure(enum setting_kind kind, const char *text, int64_t *number);
/* With the largest unit that needs no fraction: 1MB, 90s. `text` is room for it. */
#define SETTING_TEXT_MAX 32
const char *setting_measure_text(enum setting_kind kind, char *text, int64_t number);
