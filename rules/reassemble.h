#pragma once
#include "rules/rules.h"
bool reassemble_write_stages(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, bool keep_state);
bool reassemble_says_dead(struct bytes errmsg);
