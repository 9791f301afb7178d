/* A sample of the commands that pass without a rule: which arrays grow in them (rules/observe).
 * Each loop has an observer of its own; the admin address puts together what they saw. */
#pragma once

#include "rules/observe/sketch.h"

struct observer;
struct observers;

/* `share`: of the commands, in millionths; 0: NULL, nothing is observed. */
struct observers *observers_new(int64_t share);
void observers_free(struct observers *observers);
/* One more, for a loop; NULL where nothing is observed. It lives as long as the others. */
struct observer *observers_join(struct observers *observers);
/* Adds what all have seen. Any thread. */
void observers_collect(struct observers *observers, struct sketch *sketch);
/* For how long they have been looking. */
int64_t observers_seconds(const struct observers *observers);

/* Whether the next command is one of the sample. */
bool observer_is_due(struct observer *observer);
/* Looks at it: a whole frame, not compressed. */
void observer_look(struct observer *observer, struct bytes frame);
