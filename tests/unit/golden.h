/*
 * Keeps each command and each answer of the sequences, byte for byte as JSON, in
 * golden/<suite>.txt: what is written in another way must come out the same.
 * tests/unit/golden/write makes the files anew.
 */
#ifndef TESTS_UNIT_GOLDEN_H
#define TESTS_UNIT_GOLDEN_H

#include "tests/unit/unit.h"
#include "tests/unit/wire_make.h"

#include <stdio.h>
#include <stdlib.h>

#define GOLDEN_LONGEST 20000 /* of a line; of what is longer there is a hash */

/* The suite's file, behind the line that names the test. Each test is a process of its own. */
static inline FILE *golden_file(bool *writes)
{
	static FILE *file;
	auto_free char *line = NULL;
	const char *name = unit_running()->name;
	const char *path;
	size_t room = 0;

	*writes = getenv("GOLDEN_WRITE") != NULL;
	if (file)
		return file;
	path = made_text("%.*s/golden/%s.txt", (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__,
			 unit_running()->category);
	file = fopen(path, *writes ? "a" : "r");
	cr_assert_not_null(file, "%s: run tests/unit/golden/write", path);
	if (*writes) {
		fprintf(file, "# %s\n", name);
		return file;
	}
	while (getline(&line, &room, file) > 0)
		if (strncmp(line, "# ", 2) == 0 && strncmp(line + 2, name, strlen(name)) == 0 &&
		    strcmp(line + 2 + strlen(name), "\n") == 0)
			return file;
	cr_assert_fail("%s does not have %s: run tests/unit/golden/write", path, name);
	return NULL;
}

static inline uint64_t golden_hash(struct bytes bytes)
{
	uint64_t hash = 14695981039346656037U;

	for (size_t i = 0; i < bytes.length; i++)
		hash = (hash ^ bytes.data[i]) * 1099511628211U;
	return hash;
}

static inline const char *golden_sequence(const struct document_sequence *sequence)
{
	const char *text = made_text(", %.*s:", (int)sequence->identifier.length,
				     (const char *)sequence->identifier.data);
	struct bytes left = sequence->documents, document;

	while (message_next_document(&left, &document))
		text = made_text("%s %s", text, made_json(document));
	return text;
}

static inline const char *golden_text(struct bytes frame)
{
	struct message message;
	const char *text;

	if (frame.length > GOLDEN_LONGEST || !message_parse(frame, &message))
		return made_text("%zu bytes, %016llx", frame.length,
				 (unsigned long long)golden_hash(frame));
	text = made_text("%u %s", (unsigned)message.flags, made_json(message.body));
	for (size_t i = 0; i < message.sequence_count; i++)
		text = made_text("%s%s", text, golden_sequence(&message.sequences[i]));
	return strlen(text) > GOLDEN_LONGEST || strchr(text, '\n')
		       ? made_text("%zu bytes, %016llx", frame.length,
				   (unsigned long long)golden_hash(frame))
		       : text;
}

/* The next line is this one. */
static inline void golden_line(const char *text)
{
	bool writes;
	FILE *file = golden_file(&writes);
	auto_free char *line = NULL;
	size_t room = 0;

	if (writes) {
		fprintf(file, "%s\n", text);
		fflush(file);
		return;
	}
	cr_assert_gt(getline(&line, &room, file), 0);
	line[strcspn(line, "\n")] = '\0';
	cr_assert_str_eq(text, line);
}

/* What a sequence sends or answers next; `kind` tells which. */
static inline void golden_note(char kind, struct bytes frame)
{
	golden_line(made_text("%c %s", kind, golden_text(frame)));
}

#endif
