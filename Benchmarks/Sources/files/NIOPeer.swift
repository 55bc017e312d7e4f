import Measuring

#if canImport(_NIOFileSystem)
import NIOCore
import SystemPackage
import _NIOFileSystem
#endif

/// The work that `files` also has SwiftNIO's file system do.
enum NIOPeer {
    case save([UInt8])
    case load
    case info
    case list
    case streamIn([UInt8], chunkCount: Int)
    case streamOut
}

#if canImport(_NIOFileSystem)
extension NIOPeer {
    func run(_ path: FilePath) async throws {
        let fileSystem = FileSystem.shared
        switch self {
        case .save(let bytes):
            // A new file that gets its name when it is closed.
            try await bytes.write(toFileAt: path, options: .newFile(replaceExisting: true))
        case .load:
            keep(try await ByteBuffer(contentsOf: path, maximumSizeAllowed: .gibibytes(1)).readableBytes)
        case .info:
            keep(try await fileSystem.info(forFileAt: path, infoAboutSymbolicLink: true)?.size)
        case .list:
            // A listing has no attributes.
            try await fileSystem.withDirectoryHandle(atPath: path) { directory in
                for try await entry in directory.listContents(recursive: true) {
                    keep(try await fileSystem.info(forFileAt: entry.path, infoAboutSymbolicLink: true)?.size)
                }
            }
        case .streamIn(let chunk, let chunkCount):
            try await fileSystem.withFileHandle(forWritingAt: path, options: .newFile(replaceExisting: true)) { file in
                for index in 0..<chunkCount {
                    try await file.write(contentsOf: chunk, toAbsoluteOffset: Int64(index * chunk.count))
                }
            }
            try await fileSystem.removeItem(at: path)
        case .streamOut:
            try await fileSystem.withFileHandle(forReadingAt: path) { file in
                for try await chunk in file.readChunks(chunkLength: .mebibytes(1)) { keep(chunk.readableBytes) }
            }
        }
    }
}

extension Comparison {
    /// Adds the same work by SwiftNIO's file system, if it was built.
    mutating func addNIO(_ work: NIOPeer, at path: String, count: Int, perRun: Int = 1) {
        add("NIOFileSystem", count: count) { for _ in 0..<perRun { try await work.run(FilePath(path)) } }
    }
}
#else
extension Comparison {
    /// Does nothing: SwiftNIO's file system was not built.
    mutating func addNIO(_ work: NIOPeer, at path: String, count: Int, perRun: Int = 1) {}
}
#endif
