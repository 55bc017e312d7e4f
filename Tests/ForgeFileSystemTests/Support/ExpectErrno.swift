import ForgeFileSystem
import SystemPackage
import Testing

/// Expects an error of the file system with this number.
func expectErrno(_ errno: Errno, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void) {
    let error = #expect(throws: FileSystemError.self, sourceLocation: sourceLocation) { try body() }
    #expect(error?.errno == errno, sourceLocation: sourceLocation)
}
