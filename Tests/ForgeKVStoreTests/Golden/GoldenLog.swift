/// A log written by version 1, with a comment on each field; must never be changed.
enum GoldenLog {
    static let log = bytes(of: logText)

    private static let logText = """
        464f5247454b560a                    FORGEKV and a line feed
        01000000                            version 1
        40000000                            length of the header, 64
        4f450980185dc406ec814c72a8b88bf8    number of the log
        0200000000000000                    generation 2: it was rewritten once
        4f450980185dc406ec814c72a8b88bf8    the number again
        00000000                            zero
        bbe6c0ca                            checksum of what stands before
        0c000000                            byte 64: a payload of 12 bytes
        0200000000000000                      sequence number 2
        00000000                              no record before it was unflushed
        2958143a                              checksum
        01                                    set
        01                                    carried over by compaction
        0200                                  length of the name, 2
        c3a9                                  the name, é
        1101                                    envelope: version 1, binary, schema version 1
        6374776f                                the value in CBOR
        08000000                            byte 96: a payload of 8 bytes
        0300000000000000                      sequence number 3
        00000000                              no record before it was unflushed
        985dfca1                              checksum
        01                                    set
        01                                    carried over by compaction
        0100                                  length of the name, 1
        61                                    the name, a
        1101                                    envelope: version 1, binary, schema version 1
        03                                      the value in CBOR
        04000000                            byte 124: a payload of 4 bytes
        0400000000000000                      sequence number 4
        00000000                              no record before it was unflushed
        80a7f195                              checksum
        04                                    flushed
        01                                    carried over by compaction
        0000                                  length of the name, 0
        08000000                            byte 148: a payload of 8 bytes
        0500000000000000                      sequence number 5
        00000000                              no record before it was unflushed
        7a419acd                              checksum
        01                                    set
        00                                    no flags
        0100                                  length of the name, 1
        62                                    the name, b
        1101                                    envelope: version 1, binary, schema version 1
        f5                                      the value in CBOR
        05000000                            byte 176: a payload of 5 bytes
        0600000000000000                      sequence number 6
        01000000                              1 record before it unflushed
        dac32ded                              checksum
        02                                    remove
        00                                    no flags
        0100                                  length of the name, 1
        61                                    the name, a
        04000000                            byte 201: a payload of 4 bytes
        0700000000000000                      sequence number 7
        02000000                              2 records before it unflushed
        891730a8                              checksum
        03                                    remove everything
        00                                    no flags
        0000                                  length of the name, 0
        31000000                            byte 225: a payload of 49 bytes
        0a00000000000000                      sequence number 10
        02000000                              2 records before it unflushed
        153f1338                              checksum
        05                                    batch
        00                                    no flags
        0000                                  length of the name, 0
        01                                    set
        00                                    zero
        0100                                  length of the name, 1
        07000000                              length of the value, 7
        63                                    the name, c
        1101                                    envelope: version 1, binary, schema version 1
        3a0001116f                              the value in CBOR
        02                                    remove
        00                                    zero
        0200                                  length of the name, 2
        00000000                              length of the value, 0
        c3a9                                  the name, é
        01                                    set
        00                                    zero
        0400                                  length of the name, 4
        07000000                              length of the value, 7
        6c697374                              the name, list
        1101                                    envelope: version 1, binary, schema version 1
        82011901f4                              the value in CBOR
        08000000                            byte 294: a payload of 8 bytes
        0b00000000000000                      sequence number 11
        03000000                              3 records before it unflushed
        f1213f03                              checksum
        01                                    set
        00                                    no flags
        0100                                  length of the name, 1
        61                                    the name, a
        1101                                    envelope: version 1, binary, schema version 1
        05                                      the value in CBOR
        04000000                            byte 322: a payload of 4 bytes
        0c00000000000000                      sequence number 12
        00000000                              no record before it was unflushed
        d91a55b9                              checksum
        04                                    flushed
        00                                    no flags
        0000                                  length of the name, 0
        """

    /// The bytes of a text: hexadecimal digits before the comment of each line, or `00*12` for a repeated byte.
    private static func bytes(of text: String) -> [UInt8] {
        text.split(separator: "\n").flatMap { line -> [UInt8] in
            let digits = line.prefix { $0 != " " }.split(separator: "*")
            let single = Array((digits.first ?? "").utf8)
            let bytes = stride(from: 0, to: single.count - 1, by: 2).compactMap {
                UInt8(String(decoding: single[$0...($0 + 1)], as: UTF8.self), radix: 16)
            }
            let count = digits.count > 1 ? Int(digits[1]) ?? 0 : 1
            return Array(repeatElement(bytes, count: count).joined())
        }
    }

    /// The bytes as hexadecimal digits, for failure messages.
    static func text(of bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
