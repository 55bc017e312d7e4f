/// The calls and their arguments in the syntax of pjdfstest's helper.
enum CallSyntax {
    enum Argument {
        case text
        case number
        case descriptor
    }

    struct Form {
        var arguments: [Argument]
        /// The number of trailing arguments that may be omitted.
        var optionalCount = 0
    }

    static let forms: [String: Form] = [
        "open": Form(arguments: [.text, .text, .number], optionalCount: 1),
        "openat": Form(arguments: [.descriptor, .text, .text, .number], optionalCount: 1),
        "create": Form(arguments: [.text, .number]),
        "unlink": Form(arguments: [.text]),
        "unlinkat": Form(arguments: [.descriptor, .text, .text]),
        "mkdir": Form(arguments: [.text, .number]),
        "mkdirat": Form(arguments: [.descriptor, .text, .number]),
        "rmdir": Form(arguments: [.text]),
        "link": Form(arguments: [.text, .text]),
        "linkat": Form(arguments: [.descriptor, .text, .descriptor, .text, .text]),
        "symlink": Form(arguments: [.text, .text]),
        "symlinkat": Form(arguments: [.text, .descriptor, .text]),
        "readlink": Form(arguments: [.text]),
        "rename": Form(arguments: [.text, .text]),
        "renameat": Form(arguments: [.descriptor, .text, .descriptor, .text]),
        "mkfifo": Form(arguments: [.text, .number]),
        "mkfifoat": Form(arguments: [.descriptor, .text, .number]),
        "mknod": Form(arguments: [.text, .text, .number, .number, .number]),
        "mknodat": Form(arguments: [.descriptor, .text, .text, .number, .number, .number]),
        "bind": Form(arguments: [.text]),
        "bindat": Form(arguments: [.descriptor, .text]),
        "connect": Form(arguments: [.text]),
        "connectat": Form(arguments: [.descriptor, .text]),
        "chmod": Form(arguments: [.text, .number]),
        "fchmod": Form(arguments: [.descriptor, .number]),
        "lchmod": Form(arguments: [.text, .number]),
        "fchmodat": Form(arguments: [.descriptor, .text, .number, .text]),
        "chown": Form(arguments: [.text, .number, .number]),
        "fchown": Form(arguments: [.descriptor, .number, .number]),
        "lchown": Form(arguments: [.text, .number, .number]),
        "fchownat": Form(arguments: [.descriptor, .text, .number, .number, .text]),
        "truncate": Form(arguments: [.text, .number]),
        "ftruncate": Form(arguments: [.descriptor, .number]),
        "posix_fallocate": Form(arguments: [.descriptor, .number, .number]),
        "stat": Form(arguments: [.text, .text]),
        "fstat": Form(arguments: [.descriptor, .text]),
        "lstat": Form(arguments: [.text, .text]),
        "fstatat": Form(arguments: [.descriptor, .text, .text, .text]),
        "pathconf": Form(arguments: [.text, .text]),
        "fpathconf": Form(arguments: [.descriptor, .text]),
        "access": Form(arguments: [.text, .number]),
        "pread": Form(arguments: [.descriptor, .number, .number]),
        "pwrite": Form(arguments: [.descriptor, .text, .number]),
        "write": Form(arguments: [.descriptor, .text]),
        "utimensat": Form(arguments: [.descriptor, .text, .number, .text, .number, .text, .text]),
    ]

    /// A number as `strtoll(3)` reads it with base 0: decimal, `0x` hexadecimal or `0` octal; blanks may follow.
    static func number(_ word: [UInt8]) -> Int64? {
        var text = Substring(decoding: word, as: UTF8.self)
        text = text.drop { $0.isWhitespace }
        let isNegative = text.first == "-"
        if isNegative || text.first == "+" { text = text.dropFirst() }
        while text.last?.isWhitespace == true { text = text.dropLast() }
        let magnitude: UInt64?
        if text.isEmpty {
            magnitude = 0
        } else if text.hasPrefix("0x") || text.hasPrefix("0X") {
            magnitude = UInt64(text.dropFirst(2), radix: 16)
        } else {
            magnitude = UInt64(text, radix: text.hasPrefix("0") ? 8 : 10)
        }
        guard let magnitude else { return nil }
        if isNegative { return magnitude > UInt64(Int64.max) ? .min : -Int64(magnitude) }
        return Int64(clamping: magnitude)
    }
}
