/* Judges whether a rule can hold on a collection, by what listCollections and listIndexes say of it
 * (docs/internals/spill-protocol.md, "Fitness"). Pure.
 *
 * If the rule can't hold, a function returns false and writes why. In doubt a rule can't hold. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

enum unfit_code {
#define UNFIT(name, code, kind, remedy) UNFIT_##name,
#include "rules/match/unfit.def"
#undef UNFIT
};

/* Why a rule can't hold. */
struct unfit {
	enum unfit_code code;
	char reason[320]; /* what stands in its way: "it is a view" */
};

/* The collection (an entry of listCollections) has a validator that may refuse documents. */
bool judge_has_validator(struct bytes entry, struct bytes *validator);
/* An entry of listCollections: the main collection's, or its overflow's. */
must_check bool judge_main_collection(const struct rule *rule, struct bytes entry,
				      struct unfit *why);
must_check bool judge_overflow_collection(struct bytes entry, struct unfit *why);
/* What a collection's options, or a create or collMod, say of its validator. */
must_check bool judge_validator(const struct rule *rule, struct bytes options, struct unfit *why);
/* A document of listIndexes. */
must_check bool judge_main_index(const struct rule *rule, struct bytes index, struct unfit *why);
must_check bool judge_overflow_index(const struct rule *rule, struct bytes index,
				     struct unfit *why);

/* True also where it is only for new writes. */
bool judge_is_unique(struct bytes index);
/* True for the unique index {<link>: 1, <batch>: 1} that every overflow collection has to have. */
bool judge_is_batch_index(const struct rule *rule, struct bytes index);
/* True for the unique index that stands for it where documents of one element each were made by
 * hand: {_spill.p: 1, <link>: 1} of those that have a place. */
bool judge_is_place_index(const struct rule *rule, struct bytes index);
/* True for an index in which every overflow document stands, in the order of link and batch: unique
 * or not, hidden or not. */
bool judge_orders_overflow(const struct rule *rule, struct bytes index);
