import Foundation

/// A connection to a port of this machine, for requests that are sent in parts.
final class Connection {
    struct Failed: Error {
        var errno: Int32
    }

    private let socket: FileHandle

    init(port: Int) throws {
        #if canImport(Darwin)
        let descriptor = Darwin.socket(AF_INET, SOCK_STREAM, 0)
        #else
        let descriptor = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        guard descriptor >= 0 else { throw Failed(errno: errno) }
        socket = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw Failed(errno: errno) }
    }

    func write(_ text: String) throws { try socket.write(contentsOf: Data(text.utf8)) }

    /// The bytes received up to and including a text, or up to the end of the connection.
    func read(until end: String) -> String {
        var text = ""
        while !text.contains(end) {
            let data = socket.availableData
            guard !data.isEmpty else { break }
            text += String(decoding: data, as: UTF8.self)
        }
        return text
    }
}
