/* The program's log on standard error: text or JSON lines, lower case, names in single quotes,
 * never contents of documents. */
#pragma once

#include "rules/config/config.h"

void log_configure(enum config_log_level level, bool json);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
