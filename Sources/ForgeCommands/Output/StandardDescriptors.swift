import ForgeStorage
import Foundation
import SystemPackage

extension Errno {
    /// The message and the symbol of the error number: `No space left on device (ENOSPC)`.
    var text: String { "\(description) (\(name))" }
}

/// The descriptors 0, 1 and 2, which a caller may have closed.
public enum StandardDescriptors {
    /// Opens each closed standard descriptor, in a mode in which its use fails with `EBADF`.
    ///
    /// Otherwise the first file that the process opens would get the free number, and output would be written into a
    /// store. The C library does the same for set-user-ID programs (glibc, `csu/check_fds.c`). Call it before any
    /// descriptor is opened: the executor of asynchronous code opens some.
    public static func reserve() {
        let modes: [(CInt, FileDescriptor.AccessMode)] = [(0, .writeOnly), (1, .readOnly), (2, .readOnly)]
        for (number, mode) in modes where fcntl(number, F_GETFD) == -1 {
            do {
                // The lowest free number is this one, because lower ones are open.
                _ = try FileDescriptor.open("/dev/null", mode)
            } catch {
                StandardError.write("Error: cannot open /dev/null: \(error)\n")
                exit(1)
            }
        }
    }

    /// Makes a write to a pipe without a reader fail with `EPIPE` instead of ending the process.
    public static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }
}
