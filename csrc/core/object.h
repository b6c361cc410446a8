/* object: values as JGroups writes them, and how to pass over what cannot be shown.
 *
 * Object messages hold a flag, a class id and the content of that class.  SERIALIZED bytes messages
 * and wrapped primitives (class 21) hold a value behind a type byte:
 *
 *      0 null            7 8 double  f64      15 16 short  i16
 *      1 2 bool  flag    9 10 float  f32      17 string    flag ascii; i32 length or u16 and UTF
 *      3 4 byte  i8      11 12 int            18 bytes
 *      5 6 char  u16     13 14 long           19 class     a type byte
 *      50 an object: flag, class id, content  51 Java's own serialization
 *
 * in two dialects: in a *buffer* int and long are cint and clong and bytes run to the end; in a
 * *stream* they are i32 and i64, and bytes have an i32 length.  What only Java can read (type 51,
 * class names, method calls, tokens) is NEAP_FAULT_JAVA: refused by name, never guessed at. */

#ifndef NEAP_CORE_OBJECT_H
#define NEAP_CORE_OBJECT_H

#include "core/header.h"

/* Class ids of objects. */
enum neap_object_class {
  NEAP_CLASS_IP = 1, NEAP_CLASS_MESSAGE = 3, NEAP_CLASS_VIEW = 4, NEAP_CLASS_VIEW_ID = 5,
  NEAP_CLASS_MERGE_VIEW = 6, NEAP_CLASS_RECORD = 7, NEAP_CLASS_JOIN_RSP = 8, NEAP_CLASS_DIGEST = 9,
  NEAP_CLASS_MUTABLE_DIGEST = 10, NEAP_CLASS_UUID = 11, NEAP_CLASS_EXTENDED_UUID = 12,
  NEAP_CLASS_SITE_UUID = 13, NEAP_CLASS_SITE_MASTER = 14, NEAP_CLASS_SEQNOS = 15,
  NEAP_CLASS_FLAGS_UUID = 19, NEAP_CLASS_PRIMITIVE = 21, NEAP_CLASS_NUMBER = 22,
};

enum neap_dialect { NEAP_BUFFER, NEAP_STREAM };

struct neap_object {
  uint8_t type;            /* as it stands; 0 null */
  bool ascii;              /* a string of one byte a character */
  uint16_t class;          /* of type 50 */
  int64_t number;          /* bool, byte, char, int, long, short, class; float, double: the bits */
  struct neap_slice bytes; /* string, bytes, content of type 50 */
};

void neap_object_read(struct neap_reader *r, enum neap_dialect dialect, struct neap_object *object);
void neap_object_write(
  struct neap_writer *w, enum neap_dialect dialect, const struct neap_object *object);

/* float and double. */
double neap_object_real(const struct neap_object *object);

/* An exception: what an object of class "failure" is to us.  The frames say where it was thrown and
 * are passed over; a cause follows as another record if `more`. */
#define NEAP_EXCEPTION(FIELD, WHEN)                                                                \
  FIELD(u8, null, "1: there is none")                                                              \
  WHEN(flag, wrapped, null, NEAP_IN(0), "it came out of another one")                              \
  WHEN(str, class, null, NEAP_IN(0), "its Java class")                                             \
  WHEN(str, message, null, NEAP_IN(0), "what it says")                                             \
  WHEN(frames, frames, null, NEAP_IN(0), "where it was thrown")                                    \
  WHEN(flag, more, null, NEAP_IN(0), "its cause follows")
NEAP_HEADER(neap_exception, NEAP_EXCEPTION)

/* ---- for the packet decoder ---- */

/* Objects within objects, messages within messages: as deep as this. */
enum { NEAP_NESTING_MAX = 8 };

/* A header without slot: its known fields, or as many bytes as it says.  Whoever is neither is
 * NEAP_FAULT_HEADER. */
void neap_skip_header(struct neap_reader *r, uint16_t protocol, uint16_t class);
void neap_skip_payload(struct neap_reader *r, unsigned type, unsigned depth);
/* The content of an object of this class. */
void neap_skip_content(struct neap_reader *r, uint16_t class, unsigned depth);

#endif
