public import Foundation
public struct ValueCoder: Sendable {
    public init() {}
    public func encode<T: Encodable>(_ value: T) throws -> [UInt8] { [UInt8](try JSONEncoder().encode([value])) }
    public func decode<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        let all = try JSONDecoder().decode([T].self, from: Data(bytes))
        guard let first = all.first else { throw CocoaError(.coderInvalidValue) }
        return first
    }
}
