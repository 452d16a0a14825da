"""The numbers that the kernel of values and its callers agree on, as in `layout.py`.

A program decodes the bytes of a row into nodes: one for each part of an Arrow type, with the
buffers of its entries. `drumlin.client.values` makes programs, allocates nodes, and turns them
into arrays.
"""

from __future__ import annotations

from typing import Final

# A node. Entries have a byte each that says whether they are there. The values of bytes, text,
# lists and maps are 32-bit ends of entries, after a zero; a struct has none.
NODE_COUNT: Final = 0
NODE_USED: Final = 1  # bytes
NODE_ROOM: Final = 2  # for entries
NODE_BYTES_ROOM: Final = 3
NODE_VALIDITY: Final = 4  # addresses
NODE_VALUES: Final = 5
NODE_BYTES: Final = 6
NODE_KIND: Final = 7
NODE_WIDTH: Final = 8

# What a null is in a node, besides the byte that says so: the size of its value, or an end.
KIND_EMPTY: Final = 0  # structs, and columns of nothing but nulls
KIND_1: Final = 1
KIND_4: Final = 4
KIND_8: Final = 8
KIND_16: Final = 16
KIND_ENDS: Final = 32

#: Of what is read and not kept.
NO_NODE: Final = -1

# A step of a program: its operation, its node, and two arguments.
STEP_WIDTH: Final = 4
OP_END: Final = 0
OP_NULL: Final = 1  # an entry that is null, whatever the node
OP_PRESENT: Final = 2  # an entry of a struct
OP_INTEGER: Final = 3  # argument: a form; then 32 or 64 bits
OP_FLOAT: Final = 4  # argument: 4 bytes, or 8
OP_DOUBLE: Final = 5
OP_BOOLEAN: Final = 6
OP_BYTES: Final = 7  # argument: 1 for text
OP_FIXED: Final = 8  # argument: the size
OP_DECIMAL: Final = 9  # arguments: the size, or -1 if it is in the data; the precision
OP_ENUM: Final = 10  # arguments: where the program has a number for each symbol; how many
OP_UNION: Final = 11  # arguments: where the program has a place for each branch; how many
OP_JUMP: Final = 12  # argument: a place in the program
OP_LIST: Final = 13  # a list or map begins
OP_ITEM: Final = 14  # arguments: the place after the loop; the node of items
OP_LITERAL: Final = 15  # arguments: start and end of what is read instead of the row
OP_RESUME: Final = 16  # reading the row
OP_FAULT: Final = 17  # argument: why the row cannot be decoded
OP_CALL: Final = 18  # argument: a place in the program, from which it comes back
OP_RETURN: Final = 19
OP_SKIP_BLOCKS: Final = 20  # an array whose items take no bytes, however many it has

# What becomes of an integer.
FORM_4: Final = 0
FORM_8: Final = 1
FORM_FLOAT: Final = 2
FORM_DOUBLE: Final = 3
FORM_THOUSANDS: Final = 4  # 8 bytes, of which it is the thousands
FORM_THOUSANDTHS: Final = 5  # 8 bytes, of which it is the thousandths, rounded down

# The state of `decode_avro`.
VALUES_ROW: Final = 0  # the next one
VALUES_ROW_COUNT: Final = 1
VALUES_NODE_COUNT: Final = 2
VALUES_NULL_PLACE: Final = 3  # of the program: a row that is null
VALUES_FULL_NODE: Final = 4  # the node without room for the next row; `NO_NODE`: the stack
VALUES_FULL_BYTES: Final = 5  # how many more it needs; 0: it lacks room for an entry
VALUES_FAULT_POSITION: Final = 6
VALUES_INNER_START: Final = 7  # of a message within a Protobuf message
VALUES_INNER_END: Final = 8
VALUES_STACK_END: Final = 9  # of the words for loops and calls
VALUES_STATE_WIDTH: Final = 10

# What it answers.
VALUES_DONE: Final = 0
VALUES_FULL: Final = -1

# Why a row cannot be decoded.
FAULT_CUT: Final = 1
FAULT_INTEGER: Final = 2
FAULT_LENGTH: Final = 3
FAULT_TEXT: Final = 4
FAULT_BOOLEAN: Final = 5
FAULT_ENUM: Final = 6
FAULT_BRANCH: Final = 7
FAULT_DECIMAL: Final = 8
FAULT_LEFT_OVER: Final = 9
FAULT_TIME: Final = 10
FAULT_UNREADABLE: Final = 11
FAULT_BLOCK: Final = 12
FAULT_TAG: Final = 13
FAULT_TWICE: Final = 14

# A Protobuf message: its fields, by their numbers; its node, or `NO_NODE` for the entries of a
# map; and which nodes get a null where it is not there, as a stretch of a list of nodes.
MESSAGE_FIRST_FIELD: Final = 0
MESSAGE_FIELD_COUNT: Final = 1
MESSAGE_NODE: Final = 2
MESSAGE_NULLS: Final = 3
MESSAGE_NULL_COUNT: Final = 4
MESSAGE_WIDTH: Final = 5

# A field of it.
FIELD_NUMBER: Final = 0
FIELD_TYPE: Final = 1
FIELD_WIRE: Final = 2
FIELD_NODE: Final = 3  # of the value, or of an item
FIELD_LIST: Final = 4  # the node of the list or map; `NO_NODE` if it is not repeated
FIELD_ITEMS: Final = 5  # the node whose entries the list or map counts
FIELD_MESSAGE: Final = 6
FIELD_PRESENCE: Final = 7  # 1: null where it is not there; 0: zero, or empty
FIELD_CHOICE: Final = 8  # fields of a oneof have the same number, others -1
FIELD_WIDTH: Final = 9

TYPE_INT32: Final = 0
TYPE_INT64: Final = 1
TYPE_UINT32: Final = 2
TYPE_UINT64: Final = 3
TYPE_SINT32: Final = 4
TYPE_SINT64: Final = 5
TYPE_FIXED32: Final = 6
TYPE_FIXED64: Final = 7
TYPE_4: Final = 8  # kept as they are: floats and sfixed32
TYPE_8: Final = 9  # doubles and sfixed64
TYPE_BOOL: Final = 10
TYPE_STRING: Final = 11
TYPE_BYTES: Final = 12
TYPE_TIMESTAMP: Final = 13  # from here on, messages, which are not there twice
TYPE_MESSAGE: Final = 14
TYPE_ENCODED: Final = 15  # a message that stays as its bytes

WIRE_VARINT: Final = 0
WIRE_8: Final = 1
WIRE_SIZED: Final = 2
WIRE_GROUP: Final = 3
WIRE_GROUP_END: Final = 4
WIRE_4: Final = 5

# A message that is being decoded.
FRAME_MESSAGE: Final = 0
FRAME_END: Final = 1
FRAME_FIELD: Final = 2  # the next one
FRAME_POSITION: Final = 3  # within a repeated field
FRAME_SLOTS: Final = 4  # where each field's value lies, or that of a repeated one's first tag
