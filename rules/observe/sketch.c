/* Which arrays grow most, in fixed memory. */
#include "rules/observe/sketch.h"

#include "rules/rule/hash.h"

#define KEY_PARTS 3

static void array_fini(struct sketch_array *array)
{
	free(array->namespace);
	free(array->array);
	*array = (struct sketch_array){0};
}

void sketch_fini(struct sketch *sketch)
{
	for (size_t i = 0; i < SKETCH_ARRAYS; i++)
		array_fini(&sketch->arrays[i]);
}

/* Where the key is counted, or else is to be: in a free place or that of the least. `size`: of what
 * each count stands at the start of. */
static void *find_place(void *places, size_t count, size_t size, uint64_t key)
{
	struct sketch_count *least = places;

	for (size_t i = 0; i < count; i++) {
		struct sketch_count *at = (void *)((uint8_t *)places + i * size);

		if (at->elements > 0 && at->key == key)
			return at;
		if (at->elements < least->elements)
			least = at;
	}
	return least;
}

static void count_key(struct sketch_count *place, uint64_t key, int64_t elements)
{
	if (place->elements == 0 || place->key != key)
		*place = (struct sketch_count){key, place->elements, place->elements};
	if (__builtin_add_overflow(place->elements, elements, &place->elements))
		place->elements = INT64_MAX;
}

static void count_document(struct sketch_array *array, uint64_t key, int64_t elements)
{
	count_key(find_place(array->documents, SKETCH_DOCUMENTS, sizeof(array->documents[0]), key),
		  key, elements);
}

static struct sketch_array *array_place(struct sketch *sketch, uint64_t key)
{
	return find_place(sketch->arrays, SKETCH_ARRAYS, sizeof(sketch->arrays[0]), key);
}

/* The array's place, taken over from another one where it has none. */
static struct sketch_array *take_place(struct sketch *sketch, uint64_t key)
{
	struct sketch_array *place = array_place(sketch, key);
	struct sketch_count count = place->count;

	if (count.elements > 0 && count.key == key)
		return place;
	array_fini(place);
	place->count = count;
	return place;
}

static uint64_t key_of(const struct sketch_push *push, uint64_t key)
{
	const struct bytes parts[KEY_PARTS] = {push->database, push->collection, push->array};

	for (size_t i = 0; i < KEY_PARTS; i++)
		key = hash_bytes(parts[i], key);
	return key;
}

static void add(int64_t *sum, int64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = INT64_MAX;
}

void sketch_count(struct sketch *sketch, const struct sketch_push *push, uint64_t key)
{
	uint64_t own = key_of(push, key);
	struct sketch_array *array;
	struct bytes name;

	if (push->elements <= 0)
		return;
	array = take_place(sketch, own);
	if (!array->namespace) {
		auto_buffer struct buffer joined = {0};

		buffer_append(&joined, push->database.data, push->database.length);
		buffer_append(&joined, ".", 1);
		buffer_append(&joined, push->collection.data, push->collection.length);
		name = buffer_view(&joined);
		array->namespace = must_strndup((const char *)name.data, name.length);
		array->array = must_strndup((const char *)push->array.data, push->array.length);
	}
	count_key(&array->count, own, push->elements);
	add(&array->pushes, 1);
	add(&array->elements, push->elements);
	add(&array->bytes, push->bytes);
	if (push->document.length > 0)
		count_document(array, hash_bytes(push->document, key), push->elements);
}

static void merge_array(struct sketch *sketch, const struct sketch_array *from)
{
	struct sketch_array *array = take_place(sketch, from->count.key);

	if (!array->namespace) {
		array->namespace = must_strndup(from->namespace, strlen(from->namespace));
		array->array = must_strndup(from->array, strlen(from->array));
	}
	count_key(&array->count, from->count.key, from->count.elements);
	add(&array->count.over, from->count.over);
	add(&array->pushes, from->pushes);
	add(&array->elements, from->elements);
	add(&array->bytes, from->bytes);
	for (size_t i = 0; i < SKETCH_DOCUMENTS; i++) {
		const struct sketch_count *count = &from->documents[i];
		int64_t sure = count->elements - count->over;

		if (sure > 0)
			count_document(array, count->key, sure);
	}
}

void sketch_merge(struct sketch *sketch, const struct sketch *from)
{
	for (size_t i = 0; i < SKETCH_ARRAYS; i++)
		if (from->arrays[i].namespace)
			merge_array(sketch, &from->arrays[i]);
}

static int compare_grown(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one < other) - (one > other);
}

int64_t sketch_grown(const struct sketch_array *array, size_t place)
{
	int64_t grown[SKETCH_DOCUMENTS];

	for (size_t i = 0; i < SKETCH_DOCUMENTS; i++)
		grown[i] = array->documents[i].elements - array->documents[i].over;
	qsort(grown, SKETCH_DOCUMENTS, sizeof(grown[0]), compare_grown);
	return place < SKETCH_DOCUMENTS ? grown[place] : 0;
}

static int compare_arrays(const void *a, const void *b)
{
	int64_t one = sketch_grown(a, 0), other = sketch_grown(b, 0);
	const struct sketch_array *left = a, *right = b;

	if (one != other)
		return one < other ? 1 : -1;
	return (left->elements < right->elements) - (left->elements > right->elements);
}

void sketch_sort(struct sketch *sketch)
{
	qsort(sketch->arrays, SKETCH_ARRAYS, sizeof(sketch->arrays[0]), compare_arrays);
}
