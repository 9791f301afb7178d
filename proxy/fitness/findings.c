/* A list of findings, printed as text and as JSON. */
#include "proxy/fitness/findings.h"

#include "protocol/writer.h"
#include "proxy/base/json_text.h"
#include "proxy/upstream/deployment.h"
#include "rules/rule/text.h"

#include <stdarg.h>
#include <stdlib.h>

static const struct {
	const char *code;
	const char *kind;
	const char *remedy;
} codes[] = {
#define UNFIT(name, code, kind, remedy) {code, kind, remedy},
#include "rules/match/unfit.def"
#undef UNFIT
#define FINDING(name, code, kind, remedy) {code, kind, remedy},
#include "proxy/fitness/findings.def"
#undef FINDING
};

const char *unfit_remedy(enum unfit_code code)
{
	return codes[code].remedy;
}

static char *copy_of(const char *text)
{
	return text ? must_strndup(text, strlen(text)) : NULL;
}

static bool has_note(const struct findings *findings, enum finding_code code, const char *rule,
		     const char *what)
{
	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *each = &findings->list[i];

		if (!each->remedy && each->code == code && strcmp(each->what, what) == 0 &&
		    strcmp(each->rule ? each->rule : "", rule ? rule : "") == 0)
			return true;
	}
	return false;
}

void findings_add(struct findings *findings, enum finding_code code, const char *rule,
		  const char *what, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, what);
	text = bson_strdupv_printf(what, arguments);
	va_end(arguments);
	if (!codes[code].remedy && has_note(findings, code, rule, text)) {
		free(text);
		return;
	}
	if (findings->count == findings->capacity) {
		findings->capacity = findings->capacity ? 2 * findings->capacity : 16;
		findings->list =
			must_realloc(findings->list, findings->capacity * sizeof(*findings->list));
	}
	findings->problems += codes[code].remedy != NULL;
	findings->list[findings->count++] =
		(struct finding){code, copy_of(rule), text, copy_of(codes[code].remedy)};
}

void findings_remedy(struct findings *findings, const char *remedy, ...)
{
	struct finding *last = &findings->list[findings->count - 1];
	va_list arguments;

	require(last->remedy);
	free(last->remedy);
	va_start(arguments, remedy);
	last->remedy = bson_strdupv_printf(remedy, arguments);
	va_end(arguments);
}

void findings_fini(struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		free(findings->list[i].rule);
		free(findings->list[i].what);
		free(findings->list[i].remedy);
	}
	free(findings->list);
	*findings = (struct findings){0};
}

static void text_finding(struct buffer *out, const struct finding *finding)
{
	auto_free char *what = text_plain(finding->what);

	text_append(out, "%s (%s): ", finding->remedy ? "finding" : "note",
		    codes[finding->code].code);
	if (finding->rule)
		text_append(out, "rule '%s': ", finding->rule);
	text_append(out, "%s\n", what);
	if (finding->remedy) {
		auto_free char *remedy = text_plain(finding->remedy);

		text_append(out, "  to do: %s\n", remedy);
	}
}

void findings_text(struct buffer *out, const struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		if (findings->list[i].remedy)
			text_finding(out, &findings->list[i]);
	}
	for (size_t i = 0; i < findings->count; i++) {
		if (!findings->list[i].remedy)
			text_finding(out, &findings->list[i]);
	}
	if (findings->problems == 0)
		text_append(out, "nothing found that needs doing\n");
	else
		text_append(out, "%zu finding%s\n", findings->problems,
			    findings->problems == 1 ? "" : "s");
}

static void bson_list(struct buffer *out, const char *name, const struct findings *findings,
		      bool notes)
{
	size_t array = writer_open_array(out, name), document, index = 0;
	char number[12];

	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *finding = &findings->list[i];

		if (notes != !finding->remedy)
			continue;
		document = writer_open_document(out, writer_index(number, index++));
		writer_string(out, "kind", codes[finding->code].kind);
		writer_string(out, "code", codes[finding->code].code);
		if (finding->rule)
			writer_string(out, "rule", finding->rule);
		json_write_text(out, "what", finding->what);
		if (finding->remedy)
			json_write_text(out, "remedy", finding->remedy);
		writer_close(out, document);
	}
	writer_close(out, array);
}

void findings_bson(struct buffer *out, const struct findings *findings)
{
	bson_list(out, "findings", findings, false);
	bson_list(out, "notes", findings, true);
}
