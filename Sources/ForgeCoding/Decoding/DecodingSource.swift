/// The bytes and settings of one decoding.
final class DecodingSource {
    /// Empty after the decoding, so that a retained decoder reads nothing.
    private(set) var reader: ByteReader
    let userInfo: [CodingUserInfoKey: any Sendable]

    init(reader: ByteReader, userInfo: [CodingUserInfoKey: any Sendable]) {
        self.reader = reader
        self.userInfo = userInfo
    }

    func close() {
        reader = ByteReader(UnsafeRawBufferPointer(start: nil, count: 0))
    }
}
