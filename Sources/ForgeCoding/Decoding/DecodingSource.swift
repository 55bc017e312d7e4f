/// The bytes of one decoding and what holds for all of it.
final class DecodingSource {
    /// Empty once the decoding is over: a decoder that somebody kept finds nothing to read.
    private(set) var reader: ByteReader
    let maximumDepth: Int
    let userInfo: [CodingUserInfoKey: any Sendable]

    init(reader: ByteReader, maximumDepth: Int, userInfo: [CodingUserInfoKey: any Sendable]) {
        self.reader = reader
        self.maximumDepth = maximumDepth
        self.userInfo = userInfo
    }

    func close() {
        reader = ByteReader(UnsafeRawBufferPointer(start: nil, count: 0))
    }
}
