/* Tests proxy/base/config_file.c: files, their modes, and the environment. */
#include "tests/unit/unit.h"

#include "proxy/base/config_file.h"
#include "rules/rule/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "listen: [{ address: 'a:1', server: 'b:1' }]\nrules: []\n" /* lines 1, 2 */

/* A folder of its own for each test. */
struct folder {
	char path[32];
};

static void open_folder(struct folder *folder)
{
	*folder = (struct folder){.path = "/tmp/test_config_XXXXXX"};
	cr_assert_not_null(mkdtemp(folder->path));
	unsetenv("SPILLWAY_UPSTREAM_URI");
}

static char *path_in(const struct folder *folder, const char *name)
{
	struct buffer path = {0};

	text_append(&path, "%s/%s", folder->path, name);
	return text_steal(&path);
}

static void put(const struct folder *folder, const char *name, const char *text, mode_t mode)
{
	auto_free char *path = path_in(folder, name);
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(chmod(path, mode), 0);
}

static void close_folder(struct folder *folder)
{
	static const char *const names[] = {"conf", "secret"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		auto_free char *path = path_in(folder, names[i]);

		unlink(path);
	}
	rmdir(folder->path);
}

static void expect_uri(const struct folder *folder, const char *uri)
{
	auto_free char *path = path_in(folder, "conf"), *problems = NULL;
	struct config *config = config_load(path, &problems);

	cr_assert(config, "%s", problems);
	cr_assert_str_eq(config->upstream_uri, uri);
	config_free(config);
}

/* `expected` is what follows the file's name. */
static void expect_problem(const struct folder *folder, const char *expected)
{
	auto_free char *path = path_in(folder, "conf"), *problems = NULL;
	struct config *config = config_load(path, &problems);

	cr_assert_null(config);
	cr_assert_str_eq(problems + strlen(path), expected);
}

Test(config_file, a_file_is_read)
{
	struct folder folder;

	open_folder(&folder);
	put(&folder, "conf", HEAD, 0644);
	expect_uri(&folder, "mongodb://b:1/");
	setenv("SPILLWAY_UPSTREAM_URI", "mongodb://env/", 1);
	expect_uri(&folder, "mongodb://env/");
	put(&folder, "conf", HEAD "upstream: { uri: 'mongodb://ann:pass@h/' }\n", 0600);
	expect_uri(&folder, "mongodb://ann:pass@h/");
	close_folder(&folder);
}

Test(config_file, a_file_that_cannot_be_read_is_named)
{
	struct folder folder;
	char *large = must_malloc(1100001);

	open_folder(&folder);
	expect_problem(&folder, ": cannot be opened: No such file or directory\n");
	memset(large, '#', 1100000);
	large[1100000] = '\0';
	put(&folder, "conf", large, 0600);
	free(large);
	expect_problem(&folder, ": is larger than 1 MB\n");
	close_folder(&folder);
	cr_assert_null(config_load("/", &large));
	cr_assert_str_eq(large, "/: cannot be read: Is a directory\n");
	free(large);
}

Test(config_file, a_password_that_others_may_read_is_refused)
{
	struct folder folder;
	static const mode_t modes[] = {0640, 0604};

	open_folder(&folder);
	for (size_t i = 0; i < ARRAY_LENGTH(modes); i++) {
		put(&folder, "conf", HEAD "upstream: { uri: 'mongodb://ann:pass@h/' }\n", modes[i]);
		expect_problem(&folder, ":3:18: 'uri' holds a password and others may read this "
					"file: chmod 600 it, or use 'uri_file'\n");
	}
	put(&folder, "conf", HEAD "upstream: { uri_file: secret }\n", 0644);
	put(&folder, "secret", "mongodb://ann:pass@h/\n", 0644);
	expect_problem(&folder, ":3:23: 'uri_file' 'secret' holds a password and others may read "
				"it: chmod 600 it\n");
	close_folder(&folder);
}

Test(config_file, a_uri_file_stands_beside_the_configuration)
{
	struct folder folder;

	open_folder(&folder);
	put(&folder, "conf", HEAD "upstream: { uri_file: secret }\n", 0644);
	expect_problem(&folder, ":3:23: 'uri_file' 'secret' cannot be opened: No such file or "
				"directory\n");
	put(&folder, "secret", " \n", 0600);
	expect_problem(&folder, ":3:23: 'uri_file' 'secret' holds no URI\n");
	put(&folder, "secret", "mongodb://ann:pass@h/\r\n", 0600);
	expect_uri(&folder, "mongodb://ann:pass@h/");
	close_folder(&folder);
}

Test(config_file, a_uri_that_the_driver_does_not_take_is_refused_without_showing_it)
{
	struct folder folder;
	auto_free char *path = NULL, *problems = NULL;

	open_folder(&folder);
	path = path_in(&folder, "conf");
	put(&folder, "conf", HEAD "upstream: { uri: 'mongodb://ann:pa%zzss@h/' }\n", 0600);
	cr_assert_null(config_load(path, &problems));
	cr_assert_not_null(strstr(problems, ":3:18: 'uri' is not right: "));
	cr_assert_null(strstr(problems, "zzss"));
	free(problems);
	put(&folder, "conf", HEAD, 0600);
	setenv("SPILLWAY_UPSTREAM_URI", "mongodb://ann:hunter:2@h/", 1);
	cr_assert_null(config_load(path, &problems));
	cr_assert_not_null(strstr(problems, ":1:1: $SPILLWAY_UPSTREAM_URI is not right: a ':' in "
					    "the password is not escaped"));
	cr_assert_null(strstr(problems, "hunter"));
	close_folder(&folder);
}
