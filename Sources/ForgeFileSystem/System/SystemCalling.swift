import SystemPackage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

extension SystemFileSystem {
    /// Makes a system call and turns -1 into an error with the call's error number.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ call: () -> Number
    ) throws(FileSystemError) -> Number {
        let result = call()
        guard result >= 0 else { throw FileSystemError(operation, Errno(rawValue: errno)) }
        return result
    }

    /// Makes a system call that takes a path; one with a NUL inside is refused before.
    @discardableResult
    func calling<Number: FixedWidthInteger & SignedInteger>(
        _ operation: FileSystemOperation, _ path: POSIXPath, _ call: (UnsafePointer<CChar>) -> Number
    ) throws(FileSystemError) -> Number {
        guard !path.containsNUL else { throw FileSystemError(operation, .invalidArgument, path: path) }
        let result = path.withCString(call)
        guard result >= 0 else { throw FileSystemError(operation, Errno(rawValue: errno), path: path) }
        return result
    }

    /// Makes a system call that takes two paths.
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

    /// Gives the errors of a call that is made of several the name of the call and its path.
    func naming(
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
    /// Calls `body` with the bytes as C wants them.
    func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        terminated.withUnsafeBytes { bytes in
            // The array always holds at least the closing NUL, so there is a base address.
            body(bytes.assumingMemoryBound(to: CChar.self).baseAddress.unsafelyUnwrapped)
        }
    }
}

extension FixedWidthInteger {
    func map<Result>(_ transform: (Self) -> Result) -> Result { transform(self) }
}
