import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

extension SystemFileSystem {
    /// Makes a system call and throws its error number if it returns -1.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ call: () -> Number
    ) throws(FileSystemError) -> Number {
        let result = call()
        guard result >= 0 else { throw FileSystemError(operation, Errno(rawValue: errno)) }
        return result
    }

    /// Makes a system call with a path; a path that contains a NUL is refused before.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ path: POSIXPath, _ call: (UnsafePointer<CChar>) -> Number
    ) throws(FileSystemError) -> Number {
        guard !path.containsNUL else { throw FileSystemError(operation, .invalidArgument, path: path) }
        let result = path.withCString(call)
        guard result >= 0 else { throw FileSystemError(operation, Errno(rawValue: errno), path: path) }
        return result
    }

    /// Makes a system call with two paths.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ path: POSIXPath, _ destination: POSIXPath,
        _ call: (UnsafePointer<CChar>, UnsafePointer<CChar>) -> Number
    ) throws(FileSystemError) -> Number {
        guard !path.containsNUL, !destination.containsNUL else {
            throw FileSystemError(operation, .invalidArgument, path: path, destination: destination)
        }
        let result = path.withCString { first in destination.withCString { second in call(first, second) } }
        guard result >= 0 else {
            throw FileSystemError(operation, Errno(rawValue: errno), path: path, destination: destination)
        }
        return result
    }

    /// Sets the name and path in errors of a call composed of several.
    func withPathInErrors(
        _ path: POSIXPath, as operation: FileSystemOperation, _ body: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        do {
            try body()
        } catch {
            throw FileSystemError(operation, error.errno, path: path)
        }
    }
}

extension POSIXPath {
    /// Calls `body` with the bytes as a C string.
    func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        terminated.withUnsafeBytes { bytes in
            // The array contains at least the terminating NUL, so it has a base address.
            body(bytes.assumingMemoryBound(to: CChar.self).baseAddress.unsafelyUnwrapped)
        }
    }
}

extension FixedWidthInteger {
    func map<Result>(_ transform: (Self) -> Result) -> Result { transform(self) }
}
