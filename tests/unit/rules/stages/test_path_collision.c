/* Tests rules/stages/path_collision.c: which paths of a projection mongod 6.0.5 says 31249 or 31250
 * of. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/stages/path_collision.h"

static const char *const colliding[] = {
	"{'f': 1, 'f.x': 1}",
	"{'f.x': 1, 'f': {'$slice': 2}}",
	"{'f.x': {'$slice': 1}, 'f.x.y': 1}",
	"{'f': {'$elemMatch': {'x': 1}}, 'f.x': 1}",
	"{'f': {'$size': '$f'}, 'a': 1, 'f': 1}",
	"{'f.$': 1, 'f': 1}",
	"{'f.x': 0, 'f.$': 1}",
	"{'f': {'x': 1}, 'f.x': 1}",
	"{'f': {'x.y': 1, 'x': 1}}",
	"{'f': {'x': 1}, 'f': {'$slice': 1}}",
	"{'f': 1, 'f-g': 1, 'f!': 1, 'f.x': 1}", /* these sort around the dot */
	"{'_id': 1, '_id.a': 1}",
};
static const char *const apart[] = {
	"{}",
	"{'f': 1}",
	"{'f.x': 1, 'f.y': 1, 'g': 1}",
	"{'f': {'x': 1}, 'f.y': 1, 'f': {'z': 1}}",
	"{'f': 1, 'fg': 1, 'f-': 1, 'F': 1}",
	"{'f.xy': 1, 'f.x': 1}",
	"{'f': {'$elemMatch': {'x': 1, 'x.y': 2}}, 'g': {'$slice': 1}}",
};

static void expect(const char *json, bool found)
{
	cr_assert_eq(collision_in(made_bson(json)), found, "%s", json);
}

Test(collision, a_path_twice_or_through_another_is_found)
{
	for (size_t i = 0; i < ARRAY_LENGTH(colliding); i++)
		expect(colliding[i], true);
	made_free();
}

Test(collision, other_paths_are_none)
{
	for (size_t i = 0; i < ARRAY_LENGTH(apart); i++)
		expect(apart[i], false);
	made_free();
}

Test(collision, a_long_list_is_compared_in_little_time)
{
	auto_buffer struct buffer projection = {0};
	size_t start = writer_open(&projection);
	char name[12];

	for (size_t i = 100000; i > 0; i--)
		writer_int32(&projection, writer_index(name, i), 1);
	writer_close(&projection, start);
	cr_assert(!collision_in(buffer_view(&projection)));
	projection.length--; /* opened again */
	writer_string(&projection, "5.x", "$f");
	writer_close(&projection, start);
	cr_assert(collision_in(buffer_view(&projection)));
}
