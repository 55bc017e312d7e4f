import ForgeCoding
import ForgeStorage
import Foundation

/// A key and its value as a line of JSON.
enum KeyValueLine {
    /// The line for a value in its envelope: as JSON if that gives back the same bytes, else as base64.
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

    /// The schema version and the value, if its JSON text is that of exactly these bytes.
    private static func exactJSON(_ bytes: [UInt8]) -> (UInt32, CodedValue)? {
        do {
            let envelope = try ValueEnvelope(decoding: bytes)
            let value = try CodedValue(decoding: envelope)
            let parsed = try CodedValue(json: value.json())
            let back = ValueEnvelope(schemaVersion: envelope.schemaVersion, payload: try parsed.encoded()).encoded
            return back == bytes ? (envelope.schemaVersion, value) : nil
        } catch {
            return nil  // A value of another program, which base64 holds as well.
        }
    }

    /// Parses a line.
    ///
    /// - Throws: ``CommandFailure`` without the value.
    static func decode(_ line: String) throws(CommandFailure) -> (key: String, bytes: [UInt8]) {
        let object: CodedValue
        do {
            // The value has as many levels as any, within the object of the line.
            object = try CodedValue(json: line, levels: CodedValue.maximumDepth + 1)
        } catch {
            throw CommandFailure("not a JSON object: \(error)")
        }
        guard case .string(let key)? = object["key"] else { throw CommandFailure("no \"key\" that is a string") }
        if case .string(let text)? = object["base64"] {
            guard let data = Data(base64Encoded: text) else { throw CommandFailure("\"base64\" is not base64") }
            return (key, Array(data))
        }
        guard let value = object["value"] else { throw CommandFailure("neither \"value\" nor \"base64\"") }
        var version: UInt32 = 1
        if let given = object["version"] {
            guard case .integer(let number) = given, let exact = UInt32(exactly: number) else {
                throw CommandFailure("\"version\" is not a number of 32 bits")
            }
            version = exact
        }
        do {
            return (key, ValueEnvelope(schemaVersion: version, payload: try value.encoded()).encoded)
        } catch {
            throw CommandFailure("the value cannot be stored: \(error)")
        }
    }
}
