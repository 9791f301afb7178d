/* The array filters of a statement, found by the name that each is about. */
#pragma once

#include "protocol/cursor.h"

struct array_filters {
	struct bytes list;           /* of the client's; without data: none */
	struct array_filter *sorted; /* by name */
	bool *named;                 /* by their places in the list */
	size_t count, room;
};

/* The name that a filter is about: "x" of {"x.price": 5}, and of {$or: [{"x.price": 5}, ...]}. */
must_check bool array_filter_name(struct bytes filter, struct bytes *name);

/* Ended by array_filters_close. `filters`: the statement's; of another type than an array: none. */
void array_filters_open(struct array_filters *filters, const struct element *list);
/* Of several about one name, which mongod refuses, the first. */
must_check bool array_filters_find(const struct array_filters *filters, struct bytes name,
				   struct bytes *filter);
/* Those that the path of an operator names. */
void array_filters_note(struct array_filters *filters, struct bytes path);
/* Appends those that a path has named, one behind the other, in the client's order. */
void array_filters_write(const struct array_filters *filters, struct buffer *out);
void array_filters_close(struct array_filters *filters);
