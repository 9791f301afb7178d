/* `spillway suggest`: growing arrays without a rule that the running Spillway has observed, as
 * rules to paste. */
#include "proxy/base/json_text.h"
#include "proxy/inspect/inspect.h"
#include "proxy/inspect/running.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <stdio.h>

static const char *text_of(const bson_t *document, const char *key)
{
	bson_iter_t at;

	return bson_iter_init_find(&at, document, key) && BSON_ITER_HOLDS_UTF8(&at)
		       ? bson_iter_utf8(&at, NULL)
		       : "";
}

static double number_of(const bson_t *document, const char *key)
{
	bson_iter_t at;

	return bson_iter_init_find(&at, document, key) ? bson_iter_as_double(&at) : 0;
}

/* Elements that the sample saw pushed to the document that got most. */
static double most_grown(const bson_t *array)
{
	bson_iter_t at, first;

	return bson_iter_init_find(&at, array, "grown") && bson_iter_recurse(&at, &first) &&
			       bson_iter_next(&first)
		       ? bson_iter_as_double(&first)
		       : 0;
}

/* What is no rule is a comment, so that all of it can be pasted. */
static void write_array(struct buffer *out, const bson_t *array, double sample)
{
	auto_free char *namespace = text_plain(text_of(array, "namespace"));
	auto_free char *path = text_plain(text_of(array, "array"));

	text_append(
		out,
		"# %s: %s: about %.0f elements pushed, %.0f of them to one document; %.0f bytes "
		"each\n%s",
		namespace, path, number_of(array, "elements") / sample, most_grown(array) / sample,
		number_of(array, "element_bytes"), text_of(array, "rule"));
}

static void write_arrays(struct buffer *out, const bson_t *said, double sample)
{
	bson_iter_t arrays, at;
	const uint8_t *data;
	uint32_t length;
	bson_t array;

	if (!bson_iter_init_find(&arrays, said, "arrays") || !bson_iter_recurse(&arrays, &at))
		return;
	while (bson_iter_next(&at)) {
		if (!BSON_ITER_HOLDS_DOCUMENT(&at))
			continue;
		bson_iter_document(&at, &length, &data);
		if (bson_init_static(&array, data, length))
			write_array(out, &array, sample);
	}
}

/* The exit code. */
static int print(const bson_t *said, bool json)
{
	double sample = number_of(said, "sample");
	auto_buffer struct buffer out = {0};

	if (json) {
		json_print((struct bytes){bson_get_data(said), said->len});
		return sample > 0 ? 0 : 1;
	}
	if (sample <= 0) {
		fprintf(stderr, "spillway: the running Spillway observes nothing: set "
				"observe.sample in its file, for example to 0.01\n");
		return 1;
	}
	text_append(&out,
		    "# observed for %.0f s, one command in %.0f; 'spillway analyze' finds the "
		    "threshold that fits\n",
		    number_of(said, "seconds"), 1 / sample);
	write_arrays(&out, said, sample);
	printf("%.*s", (int)out.length, (const char *)out.data);
	return 0;
}

int suggest_main(const struct command_line *line)
{
	struct running running;
	bson_t *said;
	int code;

	if (!running_open(&running, line))
		return EXIT_USAGE;
	said = running_ask(&running, "/suggestions");
	code = said ? print(said, line->values[OPTION_JSON]) : EXIT_NO_ANSWER;
	bson_destroy(said);
	running_close(&running);
	return code;
}
