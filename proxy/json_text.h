/* Reports for programs: BSON as JSON. */
#pragma once

#include "protocol/writer.h"

/* One line of relaxed extended JSON; freed with bson_free. */
char *json_text(struct bytes document);
/* {"<name>": <value>}, as people write a value; freed with bson_free. */
char *json_value_text(const char *name, const struct element *value);
