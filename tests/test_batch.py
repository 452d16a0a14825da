from drumlin.records.batch import BatchHeader, parse_header, write_header


def test_header_round_trip() -> None:
    header = BatchHeader(5, 49, 1, 2, 7, 0, 0, 10, 11, -1, -1, -1, 1)
    buffer = bytearray(61)
    write_header(buffer, 0, header)
    assert parse_header(buffer) == header
