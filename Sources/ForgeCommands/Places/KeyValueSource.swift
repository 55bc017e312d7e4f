import ForgeCoding
import ForgeStorage
import Foundation
import SystemPackage

/// The keys and values of a store, or of lines of JSON.
enum KeyValueSource {
    /// A store. A local store is read in its state when it was opened, a store on servers in its state when its first
    /// page is read.
    case store(OpenedKVStore)
    /// A file or standard input that contains JSON.
    case lines(Home)

    /// A key with the bytes of its value, or with the reason why they could not be read.
    typealias Item = (key: String, bytes: Result<[UInt8], CommandFailure>)

    /// Opens a source for reading.
    ///
    /// - Returns: The source, and the damage found in a store.
    static func open(_ home: Home) throws -> (KeyValueSource, damage: [String]) {
        if let server = try home.server() { return (.store(OpenedKVStore(try server.openKeyValueStore())), []) }
        guard home.scheme == .keyValue else { return (.lines(home), []) }
        let (store, damage) = try KVStoreArgument.open(home.url, .readOnly)
        return (.store(OpenedKVStore(store)), damage)
    }

    /// The number of keys, if it is known without reading every value.
    func count() async throws -> Int? {
        guard case .store(let store) = self else { return nil }
        return try await store.names().count
    }

    /// Whether the source is known to have no keys; false for lines.
    func isEmpty() async throws -> Bool {
        guard case .store(let store) = self else { return false }
        return try await store.isEmpty()
    }

    /// Calls `body` with every key: those of a store in the order of their bytes, others in the order of the lines.
    func forEach(_ body: (Item) async throws -> Void) async throws {
        switch self {
        case .store(let store):
            try await store.forEach { key, entry in
                try await body((key, .success(entry.bytes)))
            } foreign: { key in
                try await body(
                    (key.description, .failure(CommandFailure("not a valid key: not UTF-8, or too long"))))
            }
        case .lines(let home):
            let descriptor: FileDescriptor = home.isStandardStream ? .standardInput : try Self.openFile(home)
            // The descriptor was only read from, so an error of closing it has no effect.
            defer { if !home.isStandardStream { try? descriptor.close() } }
            // Not before: opening a FIFO waits for its writer.
            Interruption.deferInterruption()
            try await Self.forEachLine(of: descriptor, body)
        }
    }

    private static func openFile(_ home: Home) throws -> FileDescriptor {
        do {
            return FileDescriptor(rawValue: try SystemFileSystem().open(POSIXPath(home.url)).rawValue)
        } catch {
            throw CommandFailure("cannot open \(home.path): \(error.errno.text)")
        }
    }

    private static func forEachLine(of descriptor: FileDescriptor, _ body: (Item) async throws -> Void) async throws {
        var reader = LineReader(descriptor)
        var first: [ArraySlice<UInt8>] = []
        if let object = try plainObject(&reader, &first) {
            for (name, value) in object {
                let bytes = Result { () throws(CommandFailure) in try KeyValueLine.bytes(ofMember: value) }
                try await body((name, bytes))
            }
            return
        }
        var number = 0
        var rest = ArraySlice(first)
        while let line = try rest.popFirst() ?? reader.next() {
            try Interruption.check()
            number += 1
            guard line.contains(where: { ![0x20, 0x09, 0x0D].contains($0) }) else { continue }
            guard let text = String(validating: line, as: UTF8.self) else {
                try await body(("line \(number)", .failure(CommandFailure("not valid UTF-8"))))
                continue
            }
            let decoded: (key: String, bytes: [UInt8])
            do throws(CommandFailure) {
                decoded = try KeyValueLine.decode(text)
            } catch {
                try await body(("line \(number)", .failure(error)))
                continue
            }
            try await body((decoded.key, .success(decoded.bytes)))
        }
    }
}

extension KeyValueSource {
    /// The maximum size in bytes of a plain object, which is parsed as a whole.
    private static let objectLimit = 64 << 20

    /// The members of the input, if it is a plain object: one JSON object whose members are keys and values, not a line
    /// of ``KeyValueLine``, not even one that another program has spread over several lines. It spans several lines, or
    /// has no member `key` that is a string.
    ///
    /// - Parameters:
    ///   - reader: The input.
    ///   - lines: Receives the lines that were read, if the input is not a plain object.
    /// - Returns: The members; nil for other input, and for an object of more than 64 MiB.
    /// - Throws: ``CommandFailure`` for a failed read.
    private static func plainObject(
        _ reader: inout LineReader, _ lines: inout [ArraySlice<UInt8>]
    ) throws -> [(name: String, value: CodedValue)]? {
        var text: [UInt8] = []
        while let line = try reader.next() {
            try Interruption.check()
            lines.append(line)
            let isFirst = text.allSatisfy(\.isBlank)
            text += line + [UInt8(ascii: "\n")]
            // The parser skips a byte order mark, too.
            let mark = isFirst && line.starts(with: "\u{FEFF}".utf8) ? 3 : 0
            if isFirst, let start = line.dropFirst(mark).first(where: { !$0.isBlank }) {
                guard start == UInt8(ascii: "{"), !isKeyValueLine(line) else { return nil }
            }
            guard text.count <= objectLimit else { return nil }
        }
        guard let content = String(validating: text, as: UTF8.self), let object = parsed(content),
            object["key"]?.isString != true || !isKeyAndValue(content), case .map(let entries) = object
        else { return nil }
        var members: [(name: String, value: CodedValue)] = []
        for entry in entries {
            if case .string(let name) = entry.key { members.append((name, entry.value)) }
        }
        lines = []  // They are not needed, and may be many.
        return members
    }

    private static func isKeyValueLine(_ line: ArraySlice<UInt8>) -> Bool {
        String(validating: line, as: UTF8.self).flatMap(parsed)?["key"]?.isString == true
    }

    private static func isKeyAndValue(_ text: String) -> Bool {
        do throws(CommandFailure) {
            _ = try KeyValueLine.decode(text)
            return true
        } catch {
            return false
        }
    }

    private static func parsed(_ text: String) -> CodedValue? {
        do {
            return try CodedValue(json: text, levels: CodedValue.maximumDepth + 1)
        } catch {
            return nil
        }
    }
}

extension CodedValue {
    fileprivate var isString: Bool { if case .string = self { true } else { false } }
}

extension UInt8 {
    fileprivate var isBlank: Bool { [0x20, 0x09, 0x0D, 0x0A].contains(self) }
}

/// Writes lines of JSON to standard output, or to a file that replaces its destination when it is complete.
struct LinesTarget {
    /// The number of bytes from which the buffer is written.
    private static let bufferSize = 1 << 16

    private var buffer: [UInt8] = []
    /// The file; nil for standard output.
    private let output: OutputFile?

    init(_ home: Home) throws {
        guard !home.isStandardStream else {
            output = nil
            return
        }
        output = try OutputFile(at: POSIXPath(home.url), named: home.text)
    }

    /// Throws if the lines cannot be written to a place because of what is there.
    static func require(_ home: Home) throws {
        guard !home.isStandardStream else { return }
        let path = try POSIXPath(home.url)
        let fileSystem = SystemFileSystem()
        if try fileSystem.exists(path, followsSymbolicLinks: false),
            try fileSystem.status(path, followsSymbolicLinks: false).type != .regular
        {
            throw CommandFailure("not a regular file: \(path.shown); json:- writes to standard output")
        }
        try requireNoStore(at: path, home.text)
    }

    /// Appends the line of a key and its value.
    mutating func set(_ key: String, _ bytes: [UInt8]) throws {
        buffer += Array(try KeyValueLine.encode(key, bytes).utf8)
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= Self.bufferSize { try write() }
    }

    /// Whether there is a file already, which is replaced at the end.
    var isReplacement: Bool { output?.isReplacement ?? false }

    /// Writes the last lines, and replaces the destination durably.
    mutating func finish() throws {
        try write()
        try output?.finish()
    }

    private mutating func write() throws {
        defer { buffer.removeAll(keepingCapacity: true) }
        guard let output else { return try StandardOutput.write(Data(buffer)) }
        try output.write(buffer)
    }
}

/// A key and its value as a line of JSON.
enum KeyValueLine {
    /// The line of a key and the bytes of its value envelope: as JSON if parsing it restores the same bytes, otherwise
    /// as base64.
    static func encode(_ key: String, _ bytes: [UInt8]) throws -> String {
        var entries = [CodedValue.Entry(.string("key"), .string(key))]
        if let (version, value) = exactJSON(bytes) {
            if version != 1 { entries.append(.init(.string("version"), .integer(Int64(version)))) }
            entries.append(.init(.string("value"), value))
        } else {
            entries.append(.init(.string("base64"), .string(Data(bytes).base64EncodedString())))
        }
        return try CodedValue.map(entries).json().escapingControlsOfJSON()
    }

    /// The schema version and the value of an envelope, if parsing the JSON text of the value restores the same bytes.
    private static func exactJSON(_ bytes: [UInt8]) -> (UInt32, CodedValue)? {
        do {
            let envelope = try ValueEnvelope(decoding: bytes)
            let value = try CodedValue(decoding: envelope)
            let parsed = try CodedValue(json: value.json())
            let restored = ValueEnvelope(schemaVersion: envelope.schemaVersion, payload: try parsed.encoded()).encoded
            return restored == bytes ? (envelope.schemaVersion, value) : nil
        } catch {
            return nil  // The bytes are not an envelope, or JSON cannot represent the value.
        }
    }

    /// Parses a line.
    ///
    /// - Throws: ``CommandFailure`` without the value.
    static func decode(_ line: String) throws(CommandFailure) -> (key: String, bytes: [UInt8]) {
        let object = try CommandFailure.naming("not a JSON object") {
            // The object of the line adds one level to those of the value.
            try CodedValue(json: line, levels: CodedValue.maximumDepth + 1)
        }
        guard case .string(let key)? = object["key"] else { throw CommandFailure("no \"key\" that is a string") }
        if case .map(let members) = object, !members.allSatisfy({ Self.isMember($0.key) }) {
            throw CommandFailure("a member other than \"key\", \"value\", \"version\" and \"base64\"")
        }
        if case .string(let text)? = object["base64"] {
            guard let data = Data(base64Encoded: text) else { throw CommandFailure("\"base64\" is not base64") }
            return (key, Array(data))
        }
        guard let value = object["value"] else { throw CommandFailure("neither \"value\" nor \"base64\"") }
        return (key, try bytes(of: value, version: object["version"], named: "version"))
    }

    private static func isMember(_ key: CodedValue) -> Bool {
        guard case .string(let name) = key else { return false }
        return ["key", "value", "version", "base64"].contains { name.hasSameBytes(as: $0) }
    }

    /// The bytes of a member of a plain object: a value, or `{"@schema": 2, "@value": …}` for schema version 2, as the
    /// export of a store writes it.
    ///
    /// - Throws: ``CommandFailure`` without the value.
    static func bytes(ofMember member: CodedValue) throws(CommandFailure) -> [UInt8] {
        guard let value = member["@value"], let version = member["@schema"] else {
            return try bytes(of: member, version: nil, named: "@schema")
        }
        return try bytes(of: value, version: version, named: "@schema")
    }

    private static func bytes(
        of value: CodedValue, version given: CodedValue?, named name: String
    ) throws(CommandFailure) -> [UInt8] {
        var version: UInt32 = 1
        if let given {
            guard case .integer(let number) = given, let exact = UInt32(exactly: number) else {
                throw CommandFailure("\"\(name)\" is not a 32-bit unsigned integer")
            }
            version = exact
        }
        let payload = try CommandFailure.naming("the value cannot be stored") { try value.encoded() }
        return ValueEnvelope(schemaVersion: version, payload: payload).encoded
    }
}

/// Reads the lines of a file in chunks.
struct LineReader {
    private let descriptor: FileDescriptor
    private let limit: Int
    private var buffer: [UInt8] = []
    private var start = 0
    private var isAtEnd = false

    /// - Parameters:
    ///   - descriptor: The input.
    ///   - limit: The maximum length of a line in bytes; by default enough for a value of 256 MiB in base64 and its key.
    init(_ descriptor: FileDescriptor, limit: Int = 512 << 20) {
        self.descriptor = descriptor
        self.limit = limit
    }

    /// The next line without its line feed; nil after the last line.
    ///
    /// - Throws: ``CommandFailure`` for a failed read, a line that is longer than the limit, or an interruption.
    mutating func next() throws(CommandFailure) -> ArraySlice<UInt8>? {
        var end = buffer[start...].firstIndex(of: UInt8(ascii: "\n"))
        while end == nil, !isAtEnd {
            buffer.removeFirst(start)
            start = 0
            let searched = buffer.count
            guard searched <= limit else { throw CommandFailure("a line is longer than \(readableSize(limit))") }
            try fill()
            end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n"))
        }
        let line = buffer[start..<(end ?? buffer.count)]
        start = end.map { $0 + 1 } ?? buffer.count
        return end == nil && line.isEmpty ? nil : line
    }

    private mutating func fill() throws(CommandFailure) {
        let size = max(1 << 16, buffer.count)
        try descriptor.waitForInput()
        let chunk = try CommandFailure.naming("cannot read the lines") { try descriptor.readChunk(upTo: size) }
        isAtEnd = chunk.isEmpty
        buffer += chunk
    }
}
