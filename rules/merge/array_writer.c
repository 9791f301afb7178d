/* Writes elements of several BSON arrays behind one another as one array, numbered anew.
 *
 * A merged array may have a million elements. So those of the usual types are copied by small loops
 * that call nothing, each over elements of one type whose new names differ in the last two digits
 * alone. All else (rare types, long names, an array's last bytes, whatever is broken) is left to
 * cursor_next. */
#include "rules/merge/array_writer.h"

#include "protocol/writer.h"

/* Elements between two looks at the room in the buffer. */
#define RUN_LENGTH 512
/* What is loaded and stored at once for a type, a name of up to six digits and its NUL. */
#define WORD_SIZE 8
/* The same for a value of fixed size, none of which takes more. */
#define FIXED_SIZE 16
/* The same for any other value; up to two of them take no call. */
#define PIECE 64
/* So many bytes before an array's end, an element can be copied without a look at the end: of fixed
 * size, or any other. */
#define FIXED_REACH (WORD_SIZE + FIXED_SIZE)
#define COUNTED_REACH (WORD_SIZE + PIECE)
/* The same where nothing is copied: type, name and the value's length are read. */
#define NUMBERED_REACH (WORD_SIZE + 4)
/* What is copied before it is looked at: so much at first, twice as much each time it was good. */
#define AHEAD_FIRST 512
#define AHEAD_MOST 16384

#define COUNTED \
	0x40 /* the value begins with its length; the low digits: what that doesn't count \
	      */

/* The size of values by their type; 0: left to cursor_next. */
static const uint8_t value_sizes[256] = {
	[BSON_BYTE_DOUBLE] = 8,
	[BSON_BYTE_STRING] = COUNTED | 4,
	[BSON_BYTE_DOCUMENT] = COUNTED,
	[BSON_BYTE_ARRAY] = COUNTED,
	[BSON_BYTE_BINARY] = COUNTED | 5,
	[BSON_BYTE_OBJECT_ID] = 12,
	[BSON_BYTE_DATE] = 8,
	[BSON_BYTE_INT32] = 4,
	[BSON_BYTE_TIMESTAMP] = 8,
	[BSON_BYTE_INT64] = 8,
	[BSON_BYTE_DECIMAL] = 16,
};

/* The first `size` (not 0) bytes of a word. */
static inline uint64_t word_mask(size_t size)
{
	return UINT64_MAX >> 8 * (WORD_SIZE - size);
}

static inline uint64_t load_word(const uint8_t *at)
{
	return (uint64_t)load_int64(at);
}

/* What type and name of elements in a row have in common: the type and the name's length. A loop
 * that only makes sure of it needs not find one name's end to get to the next element. */
struct shape {
	uint64_t mask;    /* of the first eight bytes; of a digit only that it is like one */
	uint64_t common;  /* what they are under it */
	size_t head;      /* bytes before the value */
	size_t size;      /* value_sizes of the type */
	size_t uncounted; /* of a value that begins with its length, what that doesn't count */
};

/* What the type alone says. False for rare ones, and where the array is nearly at its end. */
static bool shape_begin(const uint8_t *at, const uint8_t *end, struct shape *shape)
{
	if (end - at < WORD_SIZE)
		return false;
	shape->size = value_sizes[*at];
	shape->uncounted = shape->size & ~(size_t)COUNTED;
	return shape->size > 0;
}

/* False also where the name's NUL is not among the first eight bytes. */
static bool shape_of(const uint8_t *at, const uint8_t *end, struct shape *shape)
{
	if (!shape_begin(at, end, shape))
		return false;
	shape->mask = 0xff;
	for (size_t i = 1; i < WORD_SIZE; i++) {
		/* Where the higher half is not 0, the whole is not. */
		shape->mask |= (uint64_t)(at[i] >> 4 ? 0xf0 : 0xff) << 8 * i;
		if (at[i] == 0) {
			shape->common = load_word(at) & shape->mask;
			shape->head = i + 1;
			return true;
		}
	}
	return false;
}

static inline bool shape_fits(const struct shape *shape, uint64_t word)
{
	return (word & shape->mask) == shape->common;
}

static inline uint8_t shape_type(const struct shape *shape)
{
	return (uint8_t)shape->common;
}

/* Of the elements in so many bytes, how many of fixed size can be read without a look at the end.
 */
static inline size_t shape_reach(const struct shape *shape, ptrdiff_t bytes)
{
	if (bytes < FIXED_REACH)
		return 0;
	return (size_t)(bytes - FIXED_REACH) / (shape->head + shape->size) + 1;
}

/* The end of a value that begins with its length; NULL where it is behind `last`, or where only
 * cursor_next can tell. */
static inline const uint8_t *shape_end(const struct shape *shape, const uint8_t *value,
				       const uint8_t *last)
{
	/* What claims to be negative is beyond every end. No string, document or binary data takes
	 * fewer than five bytes. */
	size_t size = (uint32_t)load_int32(value) + shape->uncounted;
	const uint8_t *end = value + size; /* maybe beyond all memory: it is compared first */

	if (size < 5 || end > last || (end[-1] != 0 && shape_type(shape) != BSON_BYTE_BINARY))
		return NULL;
	return end;
}

/* With type and NUL. */
static inline size_t name_head(struct array_name name)
{
	return name.shift / 8 + 2;
}

/* The last digit may have become the character behind '9'. */
static struct array_name name_carry(struct array_name name)
{
	unsigned at = name.shift;

	while ((name.text >> at & 0xff) > '9') {
		name.text -= (uint64_t)10 << at;
		if (at == 8) { /* all were nines: a one comes before the zeros */
			name.text = name.text << 8 | '1' << 8;
			name.shift += 8;
			break;
		}
		at -= 8;
		name.text += (uint64_t)1 << at;
	}
	return name;
}

static struct array_name name_of(size_t number)
{
	struct array_name name = {('0' + number % 10) << 8, 8};

	for (number /= 10; number > 0; number /= 10) {
		name.text = name.text << 8 | ('0' + number % 10) << 8;
		name.shift += 8;
	}
	return name;
}

static struct bytes name_digits(const struct array_name *name)
{
	return (struct bytes){(const uint8_t *)&name->text + 1, name_head(*name) - 2};
}

/* A copy that is under way. */
struct run {
	const uint8_t *at, *end; /* of the array that is read */
	uint8_t *to;
	size_t ahead;     /* so many bytes from `at` on stand at `to` already */
	size_t ahead_due; /* how many there may be */
	struct array_name name;
};

/* What the loops take to be the same for all their elements. */
struct stride {
	struct shape shape;
	size_t head; /* bytes before the value as it is written */
	/* From one name to the next. */
	uint64_t unit;  /* a one at the last digit's place */
	uint64_t tens;  /* the place of the last digit but one; 0 where there is none */
	uint64_t nine;  /* a 9 there */
	uint64_t carry; /* takes ten from the last digit and adds one to the tens */
};

/* False for names of seven digits. */
static bool stride_names(struct stride *stride, struct array_name name)
{
	const uint64_t unit = (uint64_t)1 << name.shift;
	const uint64_t ten = name.shift > 8 ? unit >> 8 : 0;

	stride->head = name_head(name);
	stride->unit = unit;
	stride->tens = ten * 0xff;
	stride->nine = ten * '9';
	stride->carry = ten - 10 * unit;
	return stride->head <= WORD_SIZE;
}

/* How far a loop goes. */
struct quota {
	size_t steps; /* to the next name that ends in 0, or to the last element */
	size_t left;  /* elements after these steps */
};

static struct quota quota_of(struct array_name name, size_t most)
{
	size_t steps = least('9' + 1 - (name.text >> name.shift), most);

	return (struct quota){steps, most - steps};
}

static inline size_t quota_rest(struct quota quota)
{
	return quota.steps + quota.left;
}

/* Goes on to the next ten names. False where there are none, or where more than the tens change:
 * the last digit is left behind 9 then. */
static inline bool quota_refill(struct quota *quota, const struct stride *stride, uint64_t *name)
{
	if (quota->left == 0 || (*name & stride->tens) == stride->nine)
		return false;
	*name += stride->carry;
	quota->steps = least(10, quota->left);
	quota->left -= quota->steps;
	return true;
}

/* Copies up to `most` (not 0) elements of fixed size, none beyond the next hundred. */
static __attribute__((noinline)) size_t copy_fixed(struct run *run, const struct stride *stride,
						   size_t most)
{
	const struct stride same = *stride;
	const uint8_t type = shape_type(&same.shape);
	const uint8_t *at = run->at;
	uint8_t *to = run->to;
	uint64_t name = run->name.text | type;
	struct quota quota = quota_of(run->name, most);

	while (shape_fits(&same.shape, load_word(at))) {
		memcpy(to, &name, WORD_SIZE);
		memcpy(to + same.head, at + same.shape.head, FIXED_SIZE);
		to += same.head + same.shape.size;
		at += same.shape.head + same.shape.size;
		name += same.unit;
		if (--quota.steps == 0 && !quota_refill(&quota, &same, &name))
			break;
	}
	run->at = at;
	run->to = to;
	run->name.text = name - type;
	return most - quota_rest(quota);
}

static inline void copy_value(uint8_t *to, const uint8_t *from, size_t length)
{
	if (length > (size_t)2 * PIECE) {
		memcpy(to, from, length);
		return;
	}
	memcpy(to, from, PIECE);
	if (length > PIECE)
		memcpy(to + length - PIECE, from + length - PIECE, PIECE);
}

/* The same for elements whose values begin with their length. */
static __attribute__((noinline)) size_t copy_counted(struct run *run, const struct stride *stride,
						     size_t most)
{
	const struct stride same = *stride;
	const uint8_t type = shape_type(&same.shape);
	const uint8_t *last = run->end - COUNTED_REACH; /* where an element may begin */
	const uint8_t *at = run->at, *value, *next;
	uint8_t *to = run->to;
	uint64_t name = run->name.text | type;
	struct quota quota = quota_of(run->name, most);

	while (shape_fits(&same.shape, load_word(at))) {
		value = at + same.shape.head;
		next = shape_end(&same.shape, value, last);
		if (!next)
			break;
		memcpy(to, &name, WORD_SIZE);
		copy_value(to + same.head, value, (size_t)(next - value));
		to += same.head + (size_t)(next - value);
		at = next;
		name += same.unit;
		if (--quota.steps == 0 && !quota_refill(&quota, &same, &name))
			break;
	}
	run->at = at;
	run->to = to;
	run->name.text = name - type;
	return most - quota_rest(quota);
}

/* The same where the new names are as long as the old ones, and of two digits at least: what was
 * copied ahead is numbered where it stands. */
static __attribute__((noinline)) size_t number_ahead(struct run *run, const struct stride *stride,
						     size_t most)
{
	const struct stride same = *stride;
	const uint8_t type = shape_type(&same.shape);
	const uint8_t *last = run->to + run->ahead - NUMBERED_REACH, *next;
	uint8_t *to = run->to, *value;
	uint64_t name = run->name.text | type;
	struct quota quota = quota_of(run->name, most);
	int32_t length;

	while (shape_fits(&same.shape, load_word(to))) {
		value = to + same.head;
		next = shape_end(&same.shape, value, last);
		if (!next)
			break;
		/* The name's store takes some of the length along. */
		length = load_int32(value);
		memcpy(to, &name, WORD_SIZE);
		store_int32(value, length);
		to += next - to;
		name += same.unit;
		if (--quota.steps == 0 && !quota_refill(&quota, &same, &name))
			break;
	}
	run->at += to - run->to;
	run->ahead -= (size_t)(to - run->to);
	run->to = to;
	run->name.text = name - type;
	return most - quota_rest(quota);
}

/* Copies what comes next as it is; more each time, as long as that does good. */
static void copy_ahead(struct run *run)
{
	size_t wanted = least((size_t)(run->end - run->at), run->ahead_due);

	if (2 * run->ahead >= wanted)
		return;
	memcpy(run->to + run->ahead, run->at + run->ahead, wanted - run->ahead);
	run->ahead = wanted;
	run->ahead_due = least(2 * run->ahead_due, AHEAD_MOST);
}

/* Copies up to `most` elements that are like `stride` says, by the loop that does it best. */
static size_t copy_stride(struct run *run, const struct stride *stride, size_t most)
{
	size_t count = 0;

	if (!(stride->shape.size & COUNTED)) {
		most = least(most, shape_reach(&stride->shape, run->end - run->at));
		run->ahead = 0;
		return most > 0 ? copy_fixed(run, stride, most) : 0;
	}
	if (stride->head == stride->shape.head && stride->head >= WORD_SIZE - 4) {
		copy_ahead(run);
		count = run->ahead < NUMBERED_REACH ? 0 : number_ahead(run, stride, most);
	}
	if (count > 0 || run->end - run->at < COUNTED_REACH)
		return count;
	run->ahead = 0;
	run->ahead_due = AHEAD_FIRST;
	return copy_counted(run, stride, most);
}

/* Copies up to `most` elements like the first whose new names are of one length. */
static size_t copy_alike(struct run *run, size_t most)
{
	unsigned shift = run->name.shift;
	struct stride stride;
	size_t left = most, count;

	if (!stride_names(&stride, run->name) || !shape_of(run->at, run->end, &stride.shape))
		return 0;
	do {
		count = copy_stride(run, &stride, left);
		run->name = name_carry(run->name);
		left -= count;
	} while (left > 0 && count > 0 && run->name.shift == shift);
	return most - left;
}

void array_writer_open(struct array_writer *writer, struct buffer *out)
{
	*writer = (struct array_writer){out, writer_open(out), 0, name_of(0)};
}

void array_writer_close(struct array_writer *writer)
{
	writer_close(writer->out, writer->start);
}

must_check bool array_writer_begin(struct array_writer *writer, uint8_t type)
{
	/* Of seven digits, the last byte of the first takes one, and the NUL is in the other. */
	const uint64_t head[2] = {writer->name.text | type, 0};

	if (writer->count == ARRAY_WRITER_MAX)
		return false;
	buffer_append(writer->out, head, name_head(writer->name));
	writer->name.text += (uint64_t)1 << writer->name.shift;
	writer->name = name_carry(writer->name);
	writer->count++;
	return true;
}

void array_writer_append(struct array_writer *writer, struct bytes elements, size_t count)
{
	require(writer->count == 0 && count <= ARRAY_WRITER_MAX);
	buffer_append(writer->out, elements.data, elements.length);
	writer->name = name_of(count);
	writer->count = count;
}

/* Copies elements up to one that takes a closer look. There is room for `most` of them. */
static size_t copy_run(struct array_writer *writer, struct cursor *from, size_t most)
{
	struct buffer *out = writer->out;
	struct run run = {.at = from->at,
			  .end = from->end,
			  .to = out->data + out->length,
			  .ahead_due = AHEAD_FIRST,
			  .name = writer->name};
	size_t count, left = most;

	do {
		count = copy_alike(&run, left);
		left -= count;
	} while (count > 0 && left > 0);
	from->at = run.at;
	out->length = (size_t)(run.to - out->data);
	writer->name = run.name;
	writer->count += most - left;
	return most - left;
}

/* Copies one element, whatever it is. */
static enum cursor_step copy_rare(struct array_writer *writer, struct cursor *from)
{
	struct element element;
	enum cursor_step step = cursor_next(from, &element);

	if (step != CURSOR_ELEMENT)
		return step;
	if (!array_writer_begin(writer, element.type))
		return CURSOR_INVALID;
	buffer_append(writer->out, element.value.data, element.value.length);
	return CURSOR_ELEMENT;
}

must_check bool array_writer_copy(struct array_writer *writer, struct cursor *from, size_t most,
				  size_t *count)
{
	size_t before = writer->count;
	enum cursor_step step = CURSOR_ELEMENT;

	while (step == CURSOR_ELEMENT && writer->count - before < most) {
		size_t run = least(RUN_LENGTH, most - (writer->count - before));

		run = least(run, ARRAY_WRITER_MAX - writer->count);
		buffer_reserve(writer->out,
			       (size_t)(from->end - from->at) + run * WORD_SIZE + PIECE);
		if (run == 0 || copy_run(writer, from, run) < run)
			step = copy_rare(writer, from);
	}
	if (step != CURSOR_ELEMENT && step != CURSOR_END)
		return false;
	*count = writer->count - before;
	return true;
}

/* Passes over elements whose types and names are as the stride's shape has the first; of one name
 * to the next it goes by `unit`. There are elements enough before the end. */
static size_t skip_fixed(struct cursor *from, const struct stride *stride, struct quota quota)
{
	const struct stride same = *stride;
	const size_t most = quota_rest(quota);
	const uint8_t *at = from->at;
	uint64_t common = same.shape.common;

	while ((load_word(at) & same.shape.mask) == common) {
		at += same.shape.head + same.shape.size;
		common += same.unit;
		if (--quota.steps == 0 && !quota_refill(&quota, &same, &common))
			break;
	}
	from->at = at;
	return most - quota_rest(quota);
}

/* The same where the values begin with their length. */
static size_t skip_counted(struct cursor *from, const struct stride *stride, struct quota quota)
{
	const struct stride same = *stride;
	const size_t most = quota_rest(quota);
	const uint8_t *last = from->end - NUMBERED_REACH; /* where an element may begin */
	const uint8_t *at = from->at;
	uint64_t common = same.shape.common;

	while ((load_word(at) & same.shape.mask) == common) {
		const uint8_t *next = shape_end(&same.shape, at + same.shape.head, last);

		if (!next)
			break;
		at = next;
		common += same.unit;
		if (--quota.steps == 0 && !quota_refill(&quota, &same, &common))
			break;
	}
	from->at = at;
	return most - quota_rest(quota);
}

/* Passes over up to `most` elements like the first; where the stride has names, they are looked at.
 */
static size_t skip_stride(struct cursor *from, const struct stride *stride,
			  const struct array_name *name, size_t most)
{
	bool counted = stride->shape.size & COUNTED;

	if (counted && from->end - from->at < NUMBERED_REACH)
		return 0;
	if (!counted)
		most = least(most, shape_reach(&stride->shape, from->end - from->at));
	if (most == 0)
		return 0;
	return (counted ? skip_counted : skip_fixed)(
		from, stride, name ? quota_of(*name, most) : (struct quota){most, 0});
}

must_check bool array_skip(struct cursor *from, size_t most, size_t *count)
{
	struct stride stride = {0};
	struct element element;
	size_t done = 0, alike;

	while (done < most) {
		enum cursor_step step = CURSOR_ELEMENT;

		alike = shape_of(from->at, from->end, &stride.shape)
				? skip_stride(from, &stride, NULL, most - done)
				: 0;
		done += alike;
		if (alike == 0 && (step = cursor_next(from, &element)) == CURSOR_ELEMENT)
			done++;
		if (step == CURSOR_END)
			break;
		if (step != CURSOR_ELEMENT)
			return false;
	}
	*count = done;
	return true;
}

/* Passes over the next element if this is its name. */
static bool skip_named(struct cursor *from, struct array_name name)
{
	struct cursor next = *from;
	struct element element;

	if (cursor_next(&next, &element) != CURSOR_ELEMENT ||
	    !bytes_equal(element.name, name_digits(&name)))
		return false;
	*from = next;
	return true;
}

size_t array_skip_numbered(struct cursor *from, size_t most)
{
	struct stride stride;
	size_t done = 0, alike;

	for (; done < most; done += alike) {
		struct array_name name = name_of(done);

		alike = 0;
		if (shape_begin(from->at, from->end, &stride.shape) &&
		    stride_names(&stride, name)) {
			stride.shape.head = stride.head;
			stride.shape.mask = word_mask(stride.head);
			stride.shape.common = name.text | *from->at;
			alike = skip_stride(from, &stride, &name, most - done);
		}
		if (alike == 0 && !skip_named(from, name))
			break;
		alike += alike == 0;
	}
	return done;
}
