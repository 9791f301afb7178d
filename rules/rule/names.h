/* The names that the rules are about: how a path of the client's lies to a ruled array, and which
 * names are Spillway's own. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

/* The field of a main document that holds the state
 * (docs/internals/spill-protocol.md#main-document). */
#define NAME_STATE "_spill"
/* mongod's own, of what a time series stores. */
#define NAME_BUCKETS "system.buckets."
/* In the state of a document as a read returns it: its `_id` is not for the client
 * (projection_write). No rule's key begins with a slash. */
#define NAME_ID_MARK "/id"
/* The same: of its arrays these windows are for the client (window_write_marks). */
#define NAME_WINDOW_MARK "/window"

/* The last field of a document whose other fields are all for the client, whatever they are called
 * (computed.h). */
#define NAME_COMPUTED NAME_STATE "/computed"

/* As path_relate, and PATH_BELOW too for a path that comes to the array only where parts of it lead
 * through an array (`a.0.b`, `a.$[].b`, `a.$.b`: numbers, positions and empty parts behind the
 * first part are passed over). */
enum path_relation name_relate(struct bytes path, const char *array);
/* The first rule whose array the path is related to, else NULL. */
const struct rule *name_rule(struct bytes path, const struct ruled_namespace *namespace);
/* Some name at any depth of the document, or some "$path" in an expression, is related to the path;
 * also where that can't be told. */
bool name_occurs(struct bytes document, const char *path);
/* True for `_spill`, what lies in it, and spare names. */
bool name_is_state(struct bytes path);
/* Names that begin with "_spill/": inclusions ask for some of them (projection_write), so that no
 * document may have one. */
bool name_is_spare(struct bytes name);

/* Of a namespace "database.collection"; false where there is no dot. */
must_check bool name_split(struct bytes full, struct bytes *database, struct bytes *collection);

/* Writes the path of the rule's own state, "_spill.<key>", with its NUL. */
void name_state_path(struct buffer *path, const struct rule *rule);

/* A rule's fields beside the array: flag, reference, counters. */
#define NAME_FIELDS 4
/* Those of them that clients don't see, NULL for the others. */
struct name_hidden {
	const char *fields[NAME_FIELDS];
};
struct name_hidden name_hidden(const struct rule *rule);
bool name_hides_any(const struct ruled_namespace *namespace);
/* Some field's name at any depth of the document or array, or some text, which may name a field
 * too, is meant; also where that can't be told. */
bool name_is_said(const struct element *within, const struct ruled_namespace *namespace,
		  bool (*means)(struct bytes path, const struct ruled_namespace *namespace));
/* At some depth of the pipeline a path has one of their names in it, in a field's name or in a
 * text; also where that can't be told. */
bool name_hidden_occurs(struct bytes pipeline, const struct ruled_namespace *namespace);
/* The hidden field that the path names, a prefix of it or a path in it, else NULL. */
const char *name_find_hidden(struct bytes path, const struct ruled_namespace *namespace);
/* The path is related to an array or to what is hidden: mongod sees something else there than
 * clients do. */
bool name_is_other(struct bytes path, const struct ruled_namespace *namespace);
/* As name_find_hidden, of the names that clients must not write: the hidden ones, and counters and
 * references that Spillway keeps, whether they are shown or not. */
const char *name_find_reserved(struct bytes path, const struct ruled_namespace *namespace);
/* A part of the path is a number: a position in an array, or a field that is called so. */
bool path_has_position(struct bytes path);
