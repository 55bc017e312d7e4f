import ForgeFileSystem
import SystemPackage

extension Mutation {
    static let extendedAttributes: [Mutation] = [
        Mutation("no extended attribute is listed") {
            $0.extendedAttributeNames = { (_, _) throws(FileSystemError) in [] }
        },
        Mutation("at most ten extended attributes are listed") {
            $0.extendedAttributeNames = { (tree, file) throws(FileSystemError) in
                Array(try tree.base.extendedAttributeNames(of: file).prefix(10))
            }
        },
        Mutation("a missing extended attribute is empty") {
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                try tree.base.extendedAttribute(name, of: file) ?? []
            }
        },
        Mutation("an empty extended attribute is missing") {
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                let value = try tree.base.extendedAttribute(name, of: file)
                return value?.isEmpty == true ? nil : value
            }
        },
        Mutation("a long value of an extended attribute is cut off") {
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                try tree.base.extendedAttribute(name, of: file).map { Array($0.prefix(256)) }
            }
        },
        Mutation("an extended attribute is not replaced") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                guard try tree.base.extendedAttribute(name, of: file) == nil else { return }
                try tree.base.setExtendedAttribute(name, to: value, of: file)
            }
        },
        Mutation("names of extended attributes have no case") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                try tree.base.setExtendedAttribute(name.lowercased(), to: value, of: file)
            }
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                try tree.base.extendedAttribute(name.lowercased(), of: file)
            }
        },
        Mutation("an extended attribute that is too long is cut off") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                try tree.base.setExtendedAttribute(name, to: Array(value.prefix(65_536)), of: file)
            }
        },
        Mutation("an extended attribute that does not fit is dropped silently") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setExtendedAttribute(name, to: value, of: file)
                } catch  where error.errno == .noSpace {}
            }
        },
        Mutation("a change of an extended attribute counts as one of the content") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                try tree.base.setExtendedAttribute(name, to: value, of: file)
                let status = try tree.base.status(of: .descriptor(file))
                try tree.base.setTimes(accessed: nil, modified: status.changed, of: .descriptor(file))
            }
        },
        Mutation("an extended attribute needs a file opened for writing") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                if let call = tree.call(of: file), call.mode == .readOnly, !call.options.contains(.directory) {
                    throw FileSystemError(.setExtendedAttribute, .badFileDescriptor)
                }
                try tree.base.setExtendedAttribute(name, to: value, of: file)
            }
        },
    ]
}
