/* Reads the configuration file and the files that it names. */
#include "proxy/base/config_file.h"

#include "rules/rule/text.h"
#include "rules/config/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <mongoc/mongoc.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1024 * 1024)

static char *mistake_new(const char *what, const char *reason)
{
	auto_buffer struct buffer text = {0};

	text_append(&text, "%s%s", what, reason);
	return text_steal(&text);
}

/* Reads to the end or to FILE_MAX and some; errno says why not. */
static bool read_descriptor(int descriptor, struct buffer *content)
{
	ssize_t got = 1;

	while (got > 0 && content->length <= FILE_MAX) {
		buffer_reserve(content, 4096);
		got = read(descriptor, content->data + content->length, 4096);
		if (got > 0)
			content->length += (size_t)got;
		else if (got < 0 && errno == EINTR)
			got = 1;
	}
	return got >= 0;
}

static _Thread_local bool waits_for_none;

void config_file_wait_for_none(void)
{
	waits_for_none = true;
}

bool config_file_waits(const char *path)
{
	struct stat status;

	return waits_for_none && stat(path, &status) == 0 && !S_ISREG(status.st_mode) &&
	       !S_ISDIR(status.st_mode);
}

/* NULL, or what is wrong (freed by the caller). `others` is set where others than the owner may
 * read it. */
static char *read_file(const char *path, struct buffer *content, bool *others)
{
	int descriptor = -1;
	struct stat status;
	char *mistake = NULL;

	if (config_file_waits(path))
		return mistake_new("cannot be read: ", CONFIG_FILE_WAITS);
	descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (descriptor < 0)
		return mistake_new("cannot be opened: ", strerror(errno));
	if (fstat(descriptor, &status) != 0 || !read_descriptor(descriptor, content))
		mistake = mistake_new("cannot be read: ", strerror(errno));
	else if (content->length > FILE_MAX)
		mistake = mistake_new("is larger than 1 MB", "");
	else
		*others = (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
	close(descriptor);
	return mistake;
}

static char *read_uri_file(const char *name, const char *path, char **mistake)
{
	auto_free char *whole_path = config_beside(name, path);
	auto_wiped_buffer struct buffer content = {0};
	char *uri;
	bool others = false;

	*mistake = read_file(whole_path, &content, &others);
	if (*mistake)
		return NULL;
	while (content.length > 0 && strchr("\r\n\t ", content.data[content.length - 1]))
		content.length--;
	if (content.length == 0 || memchr(content.data, '\0', content.length)) {
		*mistake = mistake_new("holds no URI", "");
		return NULL;
	}
	uri = text_steal(&content);
	if (others && uri_has_secret(uri)) {
		*mistake = mistake_new("holds a password and others may read it: ", "chmod 600 it");
		free(uri);
		return NULL;
	}
	return uri;
}

must_check char *config_read_uri(const char *path, char **mistake)
{
	return read_uri_file("", path, mistake);
}

char *config_read_named(const struct config *config, const char *path, bool secret,
			struct buffer *content)
{
	auto_free char *whole_path = config_beside(config->file, path);
	bool others = false;
	char *mistake = read_file(whole_path, content, &others);

	if (!mistake && secret && others)
		mistake = mistake_new("holds a secret and others may read it: ", "chmod 600 it");
	return mistake;
}

static char *driver_mistake(const char *uri)
{
	bson_error_t error;
	mongoc_uri_t *parsed = mongoc_uri_new_with_error(uri, &error);

	mongoc_uri_destroy(parsed);
	return parsed ? NULL : mistake_new(uri_driver_mistake(error.message), "");
}

char *config_uri_mistake(const char *uri)
{
	char *mistake = uri_mistake(uri);

	return mistake ? mistake : driver_mistake(uri);
}

static const char *find_variable(const char *name)
{
	return getenv(name);
}

/* SHA-256 of the one before and of what was read. */
static _Thread_local uint8_t digest[SHA256_DIGEST_LENGTH];

static void digest_add(const struct buffer *content)
{
	uint8_t both[2 * SHA256_DIGEST_LENGTH];

	memcpy(both, digest, sizeof(digest));
	SHA256(content->data, content->length, both + sizeof(digest));
	SHA256(both, sizeof(both), digest);
}

void config_loaded_digest(char text[CONFIG_DIGEST])
{
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static bool read_included(const char *name, const char *path, struct buffer *content,
			  char **mistake)
{
	auto_free char *whole_path = config_beside(name, path);
	bool others;

	*mistake = read_file(whole_path, content, &others);
	digest_add(content);
	return !*mistake;
}

struct config *config_load(const char *path, char **problems)
{
	struct config_world world = {
		.upstream_uri = getenv("SPILLWAY_UPSTREAM_URI"),
		.read_uri_file = read_uri_file,
		.variable = find_variable,
		.read_file = read_included,
		.uri_mistake = driver_mistake,
	};
	auto_wiped_buffer struct buffer content = {0};
	auto_buffer struct buffer line = {0};
	auto_free char *mistake = read_file(path, &content, &world.others_may_read);

	memset(digest, 0, sizeof(digest));
	digest_add(&content);
	if (!mistake)
		return config_parse(path, buffer_view(&content), &world, problems);
	text_append(&line, "%s: %s\n", path, mistake);
	*problems = text_steal(&line);
	return NULL;
}
