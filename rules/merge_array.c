/* Writes elements of several BSON arrays behind one another as one array, numbered anew.
 *
 * A merged array may have a million elements. So those of the usual types are copied by two small
 * loops that call nothing, each over elements of one type whose new names differ in the last digit
 * alone. All else (rare types, long names, an array's last bytes, whatever is broken) is left to
 * cursor_next. */
#include "rules/merge_array.h"

#include "protocol/writer.h"

/* Elements between two looks at the room in the buffer. */
#define RUN_LENGTH 512
/* What is loaded and stored at once for a name and its NUL. */
#define NAME_SIZE 8
/* The same for a value of fixed size, none of which takes more. */
#define FIXED_SIZE 16
/* Type, name, NUL, value: an element of fixed size that the loops take is shorter by a few bytes
 * than two to the power of this. */
#define FIXED_REACH_SHIFT 5
/* The same for any other value; up to two of them take no call. */
#define PIECE 64
/* So many bytes before an array's end, an element can be read without a look at the end: type,
 * name, the value's length, and a piece of what comes before. */
#define REACH (1 + NAME_SIZE + 4 + PIECE)

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

/* What type and name of elements in a row have in common: the type and the name's length. A loop
 * that only makes sure of it needs not find one name's end to get to the next element. */
struct shape {
	uint64_t mask;   /* of the first eight bytes; of a digit only that it is like one */
	uint64_t common; /* what they are under it */
	size_t head;     /* bytes before the value */
};

/* False where the name's NUL is not among the first eight bytes. */
static inline bool shape_of(const uint8_t *at, struct shape *shape)
{
	shape->mask = 0xff;
	for (size_t i = 1; i < sizeof(shape->mask); i++) {
		/* Where the higher half is not 0, the whole is not. */
		shape->mask |= (uint64_t)(at[i] >> 4 ? 0xf0 : 0xff) << 8 * i;
		if (at[i] == 0) {
			shape->common = (uint64_t)load_int64(at) & shape->mask;
			shape->head = i + 1;
			return true;
		}
	}
	return false;
}

static inline bool shape_fits(const struct shape *shape, const uint8_t *at)
{
	return ((uint64_t)load_int64(at) & shape->mask) == shape->common;
}

static inline uint8_t shape_type(const struct shape *shape)
{
	return (uint8_t)shape->common;
}

static inline size_t name_size(struct array_name name)
{
	return name.shift / 8 + 2;
}

/* The last digit may have become the character behind '9'. */
static struct array_name name_carry(struct array_name name)
{
	unsigned at = name.shift;

	while ((name.text >> at & 0xff) > '9') {
		name.text -= (uint64_t)10 << at;
		if (at == 0) { /* all were nines: a one comes before the zeros */
			name.text = name.text << 8 | '1';
			name.shift += 8;
			break;
		}
		at -= 8;
		name.text += (uint64_t)1 << at;
	}
	return name;
}

/* A copy that is under way. */
struct run {
	const uint8_t *at, *end; /* of the array that is read */
	uint8_t *to;
	struct array_name name;
};

/* What the loops take to be the same for all their elements. */
struct stride {
	struct shape shape;
	size_t size; /* value_sizes of the type */
	size_t head; /* bytes before the value as it is written */
	/* From one name to the next. */
	uint64_t unit;  /* a one at the last digit's place */
	uint64_t tens;  /* the place of the last digit but one; 0 where there is none */
	uint64_t nine;  /* a 9 there */
	uint64_t carry; /* takes ten from the last digit and adds one to the tens */
};

static bool stride_of(const struct run *run, struct stride *stride)
{
	const uint64_t unit = (uint64_t)1 << run->name.shift, ten = unit >> 8;

	if (run->end - run->at < REACH || !shape_of(run->at, &stride->shape))
		return false;
	stride->size = value_sizes[shape_type(&stride->shape)];
	stride->head = 1 + name_size(run->name);
	stride->unit = unit;
	stride->tens = ten * 0xff;
	stride->nine = ten * '9';
	stride->carry = ten - 10 * unit;
	return stride->size > 0;
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

/* Goes on to the next ten names. False where there are none to write, or where more than the tens
 * change: the last digit is left behind 9 then. */
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
	const uint8_t *at = run->at;
	uint8_t *to = run->to;
	uint64_t name = run->name.text;
	struct quota quota = quota_of(run->name, most);

	while (shape_fits(&same.shape, at)) {
		*to = shape_type(&same.shape);
		memcpy(to + 1, &name, NAME_SIZE);
		memcpy(to + same.head, at + same.shape.head, FIXED_SIZE);
		to += same.head + same.size;
		at += same.shape.head + same.size;
		name += same.unit;
		if (--quota.steps == 0 && !quota_refill(&quota, &same, &name))
			break;
	}
	run->at = at;
	run->to = to;
	run->name.text = name;
	return most - quota.left - quota.steps;
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
	const ptrdiff_t uncounted = (ptrdiff_t)same.size - COUNTED;
	const uint8_t *last = run->end - REACH; /* where an element may begin */
	const uint8_t *at = run->at;
	uint8_t *to = run->to;
	uint64_t name = run->name.text;
	struct quota quota = quota_of(run->name, most);

	while (shape_fits(&same.shape, at)) {
		const uint8_t *value = at + same.shape.head;
		ptrdiff_t size = load_int32(value) + uncounted;

		/* No string, document or binary data takes fewer than five bytes. */
		if (size < 5 || size > last - value)
			break;
		if (value[size - 1] != 0 && shape_type(&same.shape) != BSON_BYTE_BINARY)
			break;
		*to = shape_type(&same.shape);
		memcpy(to + 1, &name, NAME_SIZE);
		copy_value(to + same.head, value, (size_t)size);
		to += same.head + (size_t)size;
		at = value + size;
		name += same.unit;
		if (--quota.steps == 0 && !quota_refill(&quota, &same, &name))
			break;
	}
	run->at = at;
	run->to = to;
	run->name.text = name;
	return most - quota.left - quota.steps;
}

/* So many elements of fixed size can be read without a look at the array's end. */
static size_t fixed_within_reach(const struct run *run)
{
	return (size_t)(run->end - run->at) >> FIXED_REACH_SHIFT;
}

/* Copies up to `most` elements like the first whose new names are of one length. */
static size_t copy_alike(struct run *run, size_t most)
{
	unsigned shift = run->name.shift;
	struct stride stride;
	size_t left = most, count;

	if (!stride_of(run, &stride))
		return 0;
	do {
		if (stride.size & COUNTED)
			count = copy_counted(run, &stride, left);
		else
			count = copy_fixed(run, &stride, least(left, fixed_within_reach(run)));
		run->name = name_carry(run->name);
		left -= count;
	} while (left > 0 && count > 0 && run->name.shift == shift && fixed_within_reach(run) > 0);
	return most - left;
}

void array_writer_open(struct array_writer *writer, struct buffer *out)
{
	*writer = (struct array_writer){out, writer_open(out), 0, {'0', 0}};
}

void array_writer_close(struct array_writer *writer)
{
	writer_close(writer->out, writer->start);
}

must_check bool array_writer_begin(struct array_writer *writer, uint8_t type)
{
	if (writer->count == ARRAY_WRITER_MAX)
		return false;
	buffer_append(writer->out, &type, 1);
	buffer_append(writer->out, &writer->name.text, name_size(writer->name));
	writer->name.text += (uint64_t)1 << writer->name.shift;
	writer->name = name_carry(writer->name);
	writer->count++;
	return true;
}

/* Copies elements up to one that takes a closer look. There is room for `most` of them. */
static size_t copy_run(struct array_writer *writer, struct cursor *from, size_t most)
{
	struct buffer *out = writer->out;
	struct run run = {from->at, from->end, out->data + out->length, writer->name};
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
			       (size_t)(from->end - from->at) + run * NAME_SIZE + PIECE);
		if (run == 0 || copy_run(writer, from, run) < run)
			step = copy_rare(writer, from);
	}
	if (step != CURSOR_ELEMENT && step != CURSOR_END)
		return false;
	*count = writer->count - before;
	return true;
}

/* How long a value is that begins with its length, and at whose end a reader may look REACH bytes
 * further; 0: left to cursor_next. */
static inline size_t value_length(const uint8_t *value, uint8_t type, const uint8_t *last)
{
	ptrdiff_t length = (ptrdiff_t)value_sizes[type] - COUNTED + load_int32(value);

	if (length < 5 || length > last - value ||
	    (value[length - 1] != 0 && type != BSON_BYTE_BINARY))
		return 0;
	return (size_t)length;
}

/* Passes over up to `most` elements of fixed size that begin before `last`, or there. */
static size_t skip_fixed(struct cursor *from, const struct shape *shape, const uint8_t *last,
			 size_t most)
{
	const size_t size = shape->head + value_sizes[shape_type(shape)];
	const uint8_t *at = from->at;
	size_t count = 0;

	most = least(most, (size_t)(last - at) / size + 1);
	for (; count < most && shape_fits(shape, at); count++)
		at += size;
	from->at = at;
	return count;
}

/* The same for elements whose values begin with their length. */
static size_t skip_counted(struct cursor *from, const struct shape *shape, const uint8_t *last,
			   size_t most)
{
	const uint8_t *at = from->at;
	size_t count = 0, length;

	for (; count < most && at <= last && shape_fits(shape, at); count++) {
		length = value_length(at + shape->head, shape_type(shape), last);
		if (length == 0)
			break;
		at += shape->head + length;
	}
	from->at = at;
	return count;
}

/* Passes over up to `most` elements like the first. */
static size_t skip_alike(struct cursor *from, size_t most)
{
	const uint8_t *last;
	struct shape shape;
	size_t size;

	if (from->end - from->at < REACH || !shape_of(from->at, &shape))
		return 0;
	last = from->end - REACH;
	size = value_sizes[shape_type(&shape)];
	if (size == 0)
		return 0;
	return (size & COUNTED ? skip_counted : skip_fixed)(from, &shape, last, most);
}

must_check bool array_skip(struct cursor *from, size_t most, size_t *count)
{
	struct element element;
	size_t done = 0, alike;

	while (done < most) {
		enum cursor_step step = CURSOR_ELEMENT;

		alike = skip_alike(from, most - done);
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
