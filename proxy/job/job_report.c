/* What an operator's command found, for people and as JSON. */
#include "proxy/job/job_report.h"

#include "protocol/writer.h"
#include "proxy/base/json_text.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const class_names[] = {
	[REPORT_CORRUPT] = "corrupt",
	[REPORT_UNFINISHED] = "unfinished",
	[REPORT_GARBAGE] = "garbage",
	[REPORT_LEFT] = "left as it is",
};

static struct job_report_entry *entry_of(struct job_report *report,
					 const struct job_report_kind *kind)
{
	struct job_report_entry *entry;

	for (size_t i = 0; i < report->entry_count; i++)
		if (report->entries[i].kind == kind)
			return &report->entries[i];
	report->entries =
		must_realloc(report->entries, (report->entry_count + 1) * sizeof(*report->entries));
	entry = &report->entries[report->entry_count++];
	*entry = (struct job_report_entry){.kind = kind};
	return entry;
}

size_t job_report_examples(const struct job_report_entry *entry)
{
	int64_t most = entry->listed ? REPORT_LISTED : REPORT_EXAMPLES;

	return (size_t)(entry->count < most ? entry->count : most);
}

/* Counts one more; the place for its example, NULL where there are enough. */
static struct job_report_example *add_example(struct job_report_entry *entry)
{
	size_t before = job_report_examples(entry), now;

	entry->count++;
	now = job_report_examples(entry);
	if (now == before)
		return NULL;
	entry->examples = must_realloc(entry->examples, now * sizeof(*entry->examples));
	entry->examples[before] = (struct job_report_example){0};
	return &entry->examples[before];
}

static void fill_example(struct job_report_example *example, const char *namespace,
			 const struct element *id, const char *detail)
{
	struct buffer out = {0};
	size_t start;

	example->namespace = must_strndup(namespace, strlen(namespace));
	if (detail)
		example->detail = must_strndup(detail, strlen(detail));
	if (!id)
		return;
	start = writer_open(&out);
	writer_renamed(&out, "_id", id);
	writer_close(&out, start);
	example->id = buffer_view(&out); /* the example's from now on */
}

void job_report_add(struct job_report *report, const struct job_report_kind *kind,
		    const char *namespace, const struct element *id, const char *detail)
{
	struct job_report_example *example = add_example(entry_of(report, kind));

	if (example)
		fill_example(example, namespace, id, detail);
}

void job_report_list(struct job_report *report, const struct job_report_kind *kind,
		     const char *namespace, const struct element *id, const char *detail)
{
	entry_of(report, kind)->listed = true;
	job_report_add(report, kind, namespace, id, detail);
}

void job_report_count(struct job_report *report, const char *name, int64_t amount)
{
	size_t i = 0;

	while (i < report->count_count && strcmp(report->counts[i].name, name) != 0)
		i++;
	require(i < ARRAY_LENGTH(report->counts));
	if (i == report->count_count)
		report->counts[report->count_count++] = (struct job_report_count){name, 0};
	/* What is stored may be any number. */
	if (__builtin_add_overflow(report->counts[i].value, amount, &report->counts[i].value))
		report->counts[i].value = amount < 0 ? INT64_MIN : INT64_MAX;
}

int64_t job_report_counted(const struct job_report *report, const char *name)
{
	for (size_t i = 0; i < report->count_count; i++)
		if (strcmp(report->counts[i].name, name) == 0)
			return report->counts[i].value;
	return 0;
}

static bool is_note(const struct job_report_entry *entry)
{
	return entry->kind->class == REPORT_LEFT;
}

int64_t job_report_findings(const struct job_report *report)
{
	int64_t count = 0;

	for (size_t i = 0; i < report->entry_count; i++)
		if (!is_note(&report->entries[i]))
			count += report->entries[i].count;
	return count;
}

bool job_report_found(const struct job_report *report)
{
	return job_report_findings(report) > 0;
}

static void print_example(const struct job_report_example *example)
{
	auto_free char *namespace = text_plain(example->namespace);
	auto_free char *detail = example->detail ? text_plain(example->detail) : NULL;

	printf("    '%s'", namespace);
	if (example->id.length > 0) {
		char *text = json_text(example->id);
		auto_free char *plain = text_plain(text);

		printf(" %s", plain);
		bson_free(text);
	}
	if (detail)
		printf(": %s", detail);
	printf("\n");
}

static const char *const end_names[] = {
	[JOB_END_DONE] = "done",
	[JOB_END_REFUSED] = "refused",
	[JOB_END_LOST] = "lost",
	[JOB_END_INTERRUPTED] = "interrupted",
};

static void print_text(const struct job_report *report, const struct job_report_head *head)
{
	printf("%s of rule '%s'%s%s:", head->command, head->rule,
	       head->plan ? " (a plan: nothing was written, --execute does it)" : "",
	       head->end == JOB_END_DONE ? "" : " (not all of it: it ended early)");
	for (size_t i = 0; i < report->count_count; i++)
		printf("%s %s %lld", i ? "," : "", report->counts[i].name,
		       (long long)report->counts[i].value);
	printf("\n");
	for (size_t i = 0; i < report->entry_count; i++) {
		const struct job_report_entry *entry = &report->entries[i];
		size_t examples = job_report_examples(entry);

		printf("%s%s, %s, %lld: %s (%s)\n", is_note(entry) ? "note: " : "",
		       entry->kind->code, class_names[entry->kind->class], (long long)entry->count,
		       entry->kind->what, entry->kind->name);
		if (entry->kind->remedy)
			printf("  to do: %s\n", entry->kind->remedy);
		for (size_t k = 0; k < examples; k++)
			print_example(&entry->examples[k]);
		if (entry->count > (int64_t)examples)
			printf("    and %lld more\n",
			       (long long)entry->count - (long long)examples);
	}
}

static void write_example(struct buffer *out, const char *name,
			  const struct job_report_example *example)
{
	size_t item = writer_open_document(out, name);
	struct element id;

	json_write_text(out, "namespace", example->namespace);
	if (example->id.length > 0 && document_find(example->id, "_id", &id))
		json_write_value(out, "_id", &id);
	if (example->detail)
		json_write_text(out, "detail", example->detail);
	writer_close(out, item);
}

static void write_entry(struct buffer *out, const char *name, const struct job_report_entry *entry)
{
	size_t item = writer_open_document(out, name), examples;
	char index[12];

	writer_string(out, "code", entry->kind->code);
	writer_string(out, "name", entry->kind->name);
	writer_string(out, "class", class_names[entry->kind->class]);
	writer_string(out, "what", entry->kind->what);
	if (entry->kind->remedy)
		writer_string(out, "remedy", entry->kind->remedy);
	writer_int64(out, "count", entry->count);
	examples = writer_open_array(out, "examples");
	for (size_t i = 0; i < job_report_examples(entry); i++)
		write_example(out, writer_index(index, i), &entry->examples[i]);
	writer_close(out, examples);
	if (entry->count > (int64_t)job_report_examples(entry))
		writer_int64(out, "more", entry->count - (int64_t)job_report_examples(entry));
	writer_close(out, item);
}

/* Notes are told beside the findings. */
static void write_entries(struct buffer *out, const char *name, const struct job_report *report,
			  bool notes)
{
	size_t array = writer_open_array(out, name), count = 0;
	char index[12];

	for (size_t i = 0; i < report->entry_count; i++)
		if (is_note(&report->entries[i]) == notes)
			write_entry(out, writer_index(index, count++), &report->entries[i]);
	writer_close(out, array);
}

static void print_json(const struct job_report *report, const struct job_report_head *head)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "command", head->command);
	json_write_text(&out, "rule", head->rule);
	writer_bool(&out, "executed", head->executed);
	writer_string(&out, "ended", end_names[head->end]);
	if (head->error)
		json_write_text(&out, "error", head->error);
	for (size_t i = 0; i < report->count_count; i++)
		writer_int64(&out, report->counts[i].name, report->counts[i].value);
	write_entries(&out, "findings", report, false);
	write_entries(&out, "notes", report, true);
	writer_close(&out, start);
	json_print(buffer_view(&out));
}

void job_report_print(const struct job_report *report, const struct job_report_head *head)
{
	if (head->json)
		print_json(report, head);
	else
		print_text(report, head);
}

static void free_example(struct job_report_example *example)
{
	free(example->namespace);
	bytes_free(example->id);
	free(example->detail);
}

/* As many examples as there is room for change hands. */
static void merge_entry(struct job_report_entry *entry, const struct job_report_entry *other)
{
	size_t kept = job_report_examples(other);

	entry->listed = other->listed;
	for (size_t k = 0; k < kept; k++) {
		struct job_report_example *example = add_example(entry);

		if (example)
			*example = other->examples[k];
		else
			free_example(&other->examples[k]);
	}
	entry->count += other->count - (int64_t)kept;
	free(other->examples);
}

void job_report_merge(struct job_report *report, struct job_report *other)
{
	for (size_t i = 0; i < other->count_count; i++)
		job_report_count(report, other->counts[i].name, other->counts[i].value);
	for (size_t i = 0; i < other->entry_count; i++)
		merge_entry(entry_of(report, other->entries[i].kind), &other->entries[i]);
	free(other->entries);
	*other = (struct job_report){0};
}

void job_report_fini(struct job_report *report)
{
	for (size_t i = 0; i < report->entry_count; i++) {
		for (size_t k = 0; k < job_report_examples(&report->entries[i]); k++)
			free_example(&report->entries[i].examples[k]);
		free(report->entries[i].examples);
	}
	free(report->entries);
}
