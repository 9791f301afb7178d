/* Finds what is secret in a MongoDB connection string. */
#include "rules/uri.h"

#include "rules/text.h"

#include <strings.h>

static const char mask[] = "***";

/* Up to where a user and a password reach: the last '@' of the authority, or NULL. */
static const char *credentials_end(const char *authority)
{
	const char *end = authority + strcspn(authority, "/?");
	const char *at = end;

	while (at > authority && *at != '@')
		at--;
	return *at == '@' ? at : NULL;
}

static bool is_secret_option(const char *option, size_t length)
{
	static const char *const secrets[] = {"tlsCertificateKeyFilePassword",
					      "sslClientCertificateKeyPassword",
					      "authMechanismProperties", "proxyPassword"};

	for (size_t i = 0; i < ARRAY_LENGTH(secrets); i++) {
		if (length == strlen(secrets[i]) && strncasecmp(option, secrets[i], length) == 0)
			return true;
	}
	return false;
}

static void mask_options(struct buffer *out, const char *options)
{
	while (*options) {
		size_t name = strcspn(options, "=&;");
		size_t whole = strcspn(options, "&;");

		if (options[name] == '=' && is_secret_option(options, name))
			text_append(out, "%.*s=%s", (int)name, options, mask);
		else
			text_append(out, "%.*s", (int)whole, options);
		options += whole;
		if (*options)
			text_append(out, "%c", *options++);
	}
}

char *uri_masked(const char *uri)
{
	auto_buffer struct buffer out = {0};
	const char *scheme = strstr(uri, "://");
	const char *authority = scheme ? scheme + 3 : uri;
	const char *end = credentials_end(authority);
	const char *colon = end ? memchr(authority, ':', (size_t)(end - authority)) : NULL;
	const char *rest = end ? end : authority;
	size_t options;

	text_append(&out, "%.*s", (int)((colon ? colon + 1 : rest) - uri), uri);
	if (colon)
		text_append(&out, "%s", colon + 1 < end ? mask : "");
	options = strcspn(rest, "?");
	text_append(&out, "%.*s", (int)options, rest);
	if (rest[options]) {
		text_append(&out, "?");
		mask_options(&out, rest + options + 1);
	}
	return text_steal(&out);
}

bool uri_has_secret(const char *uri)
{
	auto_free char *masked = uri_masked(uri);

	return strcmp(masked, uri) != 0;
}
