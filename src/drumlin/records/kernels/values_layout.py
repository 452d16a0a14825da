"""Constants shared by the kernels of values and their callers, as in `layout.py`.

A program decodes the bytes of a row into nodes. There is one node for each part of an Arrow type;
it has the buffers of that part's entries. `drumlin.client.values` builds programs, allocates nodes,
and converts them into arrays.
"""

from __future__ import annotations

from typing import Final

# A node. Each entry has a validity byte. The values buffer of bytes, text, lists and maps holds a
# zero, then the 32-bit end of each entry; a struct has no values buffer.
NODE_COUNT: Final = 0
NODE_USED: Final = 1  # bytes used
NODE_ROOM: Final = 2  # maximum number of entries
NODE_BYTES_ROOM: Final = 3
NODE_VALIDITY: Final = 4  # addresses
NODE_VALUES: Final = 5
NODE_BYTES: Final = 6
NODE_KIND: Final = 7
NODE_WIDTH: Final = 8

# The kind of a node's values: their fixed size in bytes, or the ends of values of any size. A null
# entry has a value, too, in addition to its validity byte.
KIND_EMPTY: Final = 0  # no values: structs, and columns with only nulls
KIND_1: Final = 1
KIND_4: Final = 4
KIND_8: Final = 8
KIND_16: Final = 16
KIND_ENDS: Final = 32

#: The node of a value that is read but not kept.
NO_NODE: Final = -1

# A step of a program: its operation, its node, and two arguments.
STEP_WIDTH: Final = 4
OP_END: Final = 0
OP_NULL: Final = 1  # a null entry, for any kind of node
OP_PRESENT: Final = 2  # an entry of a struct
OP_INTEGER: Final = 3  # arguments: a form; 32 or 64 bits
OP_FLOAT: Final = 4  # argument: size of the result, 4 or 8 bytes
OP_DOUBLE: Final = 5
OP_BOOLEAN: Final = 6
OP_BYTES: Final = 7  # argument: 1 for text
OP_FIXED: Final = 8  # argument: the size
OP_DECIMAL: Final = 9  # arguments: the size, or -1 if it is in the data; place of the limits
OP_ENUM: Final = 10  # arguments: place of the table of symbols' numbers; its length
OP_UNION: Final = 11  # arguments: place of the table of branches' places; its length
OP_JUMP: Final = 12  # argument: a place in the program
OP_LIST: Final = 13  # a list or map begins
OP_ITEM: Final = 14  # arguments: the place after the loop; the node of items
OP_LITERAL: Final = 15  # arguments: start and end of the literal to read next
OP_RESUME: Final = 16  # return from the literal to the row
OP_FAULT: Final = 17  # argument: why the row cannot be decoded
OP_CALL: Final = 18  # argument: a place in the program; OP_RETURN comes back
OP_RETURN: Final = 19
OP_SKIP_BLOCKS: Final = 20  # an array whose items take no bytes, however many it has

# How an integer is stored.
FORM_4: Final = 0
FORM_8: Final = 1
FORM_FLOAT: Final = 2
FORM_DOUBLE: Final = 3
FORM_THOUSANDS: Final = 4  # 8 bytes: the integer times 1000
FORM_THOUSANDTHS: Final = 5  # 8 bytes: the integer divided by 1000, rounded down

# The state of `decode_avro`.
VALUES_ROW: Final = 0  # the next row
VALUES_ROW_COUNT: Final = 1
VALUES_NODE_COUNT: Final = 2
VALUES_NULL_PLACE: Final = 3  # where the program adds a null row
VALUES_FULL_NODE: Final = 4  # the node without room for the next row; `NO_NODE`: the stack
VALUES_FULL_BYTES: Final = 5  # bytes needed; 0: the node lacks room for an entry
VALUES_FAULT_POSITION: Final = 6
VALUES_INNER_START: Final = 7  # of a nested Protobuf message
VALUES_INNER_END: Final = 8
VALUES_STACK_END: Final = 9  # end of the stack of loops and calls
VALUES_STATE_WIDTH: Final = 10

# What `decode_avro` and `decode_protobuf` return.
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

# A Protobuf message type: its range in the table of fields, sorted by number; its node (`NO_NODE`
# for the entries of a map); and its range in the list of nodes that get a null if it is absent.
MESSAGE_FIRST_FIELD: Final = 0
MESSAGE_FIELD_COUNT: Final = 1
MESSAGE_NODE: Final = 2
MESSAGE_NULLS: Final = 3
MESSAGE_NULL_COUNT: Final = 4
MESSAGE_WIDTH: Final = 5

# A field of a message.
FIELD_NUMBER: Final = 0
FIELD_TYPE: Final = 1
FIELD_WIRE: Final = 2
FIELD_NODE: Final = 3  # node of the value, or of an item
FIELD_LIST: Final = 4  # the node of the list or map; `NO_NODE` if it is not repeated
FIELD_ITEMS: Final = 5  # the node whose entries the list or map counts
FIELD_MESSAGE: Final = 6
FIELD_PRESENCE: Final = 7  # if the field is absent: 1: null; 0: zero or empty
FIELD_CHOICE: Final = 8  # the number of its oneof; -1: none
FIELD_WIDTH: Final = 9

TYPE_INT32: Final = 0
TYPE_INT64: Final = 1
TYPE_UINT32: Final = 2
TYPE_UINT64: Final = 3
TYPE_SINT32: Final = 4
TYPE_SINT64: Final = 5
TYPE_FIXED32: Final = 6
TYPE_FIXED64: Final = 7
TYPE_4: Final = 8  # stored as they are: float and sfixed32
TYPE_8: Final = 9  # stored as they are: double and sfixed64
TYPE_BOOL: Final = 10
TYPE_STRING: Final = 11
TYPE_BYTES: Final = 12
TYPE_TIMESTAMP: Final = 13  # this and the following: messages, which must not repeat
TYPE_MESSAGE: Final = 14
TYPE_ENCODED: Final = 15  # a message that is kept encoded

WIRE_VARINT: Final = 0
WIRE_8: Final = 1
WIRE_SIZED: Final = 2
WIRE_GROUP: Final = 3
WIRE_GROUP_END: Final = 4
WIRE_4: Final = 5

# A message that is being decoded.
FRAME_MESSAGE: Final = 0
FRAME_END: Final = 1
FRAME_FIELD: Final = 2  # the next field
FRAME_POSITION: Final = 3  # within a repeated field
FRAME_SLOTS: Final = 4  # position of each field's value; of a repeated field's first tag
