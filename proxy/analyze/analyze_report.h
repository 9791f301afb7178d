/* What `spillway analyze` found, and its forms: text, JSON, SVG. Pure. */
#pragma once

#include "proxy/analyze/advice.h"

struct report_array {
	char *path; /* owned */
	struct distribution distribution;
	struct advice advice;
};

struct analyze_report {
	char *namespace;   /* owned */
	int64_t documents; /* in the collection */
	int64_t looked_at; /* fewer: a sample was drawn */
	int64_t bytes;     /* of those looked at */
	int64_t largest;   /* the largest document, in bytes */
	int64_t spilled;   /* documents that Spillway has already split */
	size_t left_out;   /* arrays that were found but not looked at */
	bool searched;     /* the arrays were found by looking; else one was named */
	double seconds;
	struct report_array *arrays; /* owned */
	size_t array_count;
};

void analyze_report_fini(struct analyze_report *report);
bool report_is_sample(const struct analyze_report *report);

/* Each appends. The text is plain UTF-8 of at most 80 columns where names allow it. */
void analyze_report_text(struct buffer *out, const struct analyze_report *report);
/* Without a newline. */
void analyze_report_json(struct buffer *out, const struct analyze_report *report);
/* The rules for which the pattern pays, to paste; what the others lack as comments. */
void analyze_report_yaml(struct buffer *out, const struct analyze_report *report);
/* One chart for each array, one below the other. */
void analyze_report_svg(struct buffer *out, const struct analyze_report *report);
