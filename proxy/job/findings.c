/* What `spillway check` finds: each says what is wrong and what to do about it. */
#include "proxy/job/findings.h"

#include "protocol/writer.h"
#include "proxy/base/json_text.h"
#include "rules/rule/text.h"

#include <stdlib.h>

void findings_add(struct findings *findings, const char *kind, const char *rule, char *what,
		  char *remedy)
{
	if (findings->count == findings->capacity) {
		findings->capacity = findings->capacity ? 2 * findings->capacity : 16;
		findings->list =
			must_realloc(findings->list, findings->capacity * sizeof(*findings->list));
	}
	findings->problems += remedy != NULL;
	findings->list[findings->count++] =
		(struct finding){must_strndup(kind, strlen(kind)),
				 rule ? must_strndup(rule, strlen(rule)) : NULL, what, remedy};
}

static bool has_note(const struct findings *findings, const char *kind, const char *rule,
		     const char *what)
{
	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *each = &findings->list[i];

		if (!each->remedy && strcmp(each->kind, kind) == 0 &&
		    strcmp(each->rule ? each->rule : "", rule ? rule : "") == 0 &&
		    strcmp(each->what, what) == 0)
			return true;
	}
	return false;
}

void findings_note(struct findings *findings, const char *kind, const char *rule, char *what)
{
	if (has_note(findings, kind, rule, what)) {
		free(what);
		return;
	}
	findings_add(findings, kind, rule, what, NULL);
}

void findings_fini(struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		free(findings->list[i].kind);
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

	text_append(out, finding->remedy ? "finding: " : "note: ");
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
		writer_string(out, "kind", finding->kind);
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
