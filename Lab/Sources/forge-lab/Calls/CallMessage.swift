/// The request of `forge-lab call`: its command line and its working directory.
struct CallRequest: Equatable {
    /// The inode number of the working directory, 0 if that lies in another file system.
    var directory: UInt64
    var words: [[UInt8]]
}

/// The output to print and the exit status.
struct CallResponse: Equatable {
    var status: UInt8 = 0
    var output: [UInt8] = []
    var diagnostics: [UInt8] = []
}

/// The encoding: integers in native byte order, each string after its length.
extension CallRequest {
    /// A longer request is not a command line.
    static let maximumSize = 4 << 20

    var bytes: [UInt8] {
        var writer = CallWriter()
        writer.append(directory)
        writer.append(UInt64(words.count))
        for word in words { writer.append(word) }
        return writer.bytes
    }

    init?(_ bytes: [UInt8]) {
        var reader = CallReader(bytes: bytes)
        guard let directory = reader.number(), let count = reader.number(), count <= UInt64(bytes.count) else {
            return nil
        }
        self.init(directory: directory, words: [])
        for _ in 0..<count {
            guard let word = reader.string() else { return nil }
            words.append(word)
        }
        guard reader.isAtEnd else { return nil }
    }
}

extension CallResponse {
    var bytes: [UInt8] {
        var writer = CallWriter()
        writer.append(UInt64(status))
        writer.append(output)
        writer.append(diagnostics)
        return writer.bytes
    }

    init?(_ bytes: [UInt8]) {
        var reader = CallReader(bytes: bytes)
        guard let status = reader.number().flatMap({ UInt8(exactly: $0) }), let output = reader.string(),
            let diagnostics = reader.string(), reader.isAtEnd
        else { return nil }
        self.init(status: status, output: output, diagnostics: diagnostics)
    }
}

private struct CallWriter {
    var bytes: [UInt8] = []

    mutating func append(_ number: UInt64) { withUnsafeBytes(of: number) { bytes.append(contentsOf: $0) } }

    mutating func append(_ string: [UInt8]) {
        append(UInt64(string.count))
        bytes += string
    }
}

private struct CallReader {
    let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    mutating func number() -> UInt64? {
        guard bytes.count - position >= 8 else { return nil }
        defer { position += 8 }
        return bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: position, as: UInt64.self) }
    }

    mutating func string() -> [UInt8]? {
        guard let count = number().flatMap({ Int(exactly: $0) }), count <= bytes.count - position else { return nil }
        defer { position += count }
        return Array(bytes[position..<position + count])
    }
}
