import ForgeFileSystem
import Foundation
import SystemPackage

extension Mutation {
    static let walking: [Mutation] = [
        Mutation("slashes after a path are ignored") { $0.path = { $0.withoutTrailingSlashes } },
        Mutation("slashes after a path are ignored on opening") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                call.path = call.path.withoutTrailingSlashes
                return try call(on: tree)
            }
        },
        Mutation("`..` removes the component before it, link or not") {
            $0.path = { path in
                var kept: [ArraySlice<UInt8>] = []
                for part in path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
                    if part.elementsEqual("..".utf8), let last = kept.last, !last.isEmpty,
                        !last.elementsEqual("..".utf8)
                    {
                        kept.removeLast()
                    } else {
                        kept.append(part)
                    }
                }
                return POSIXPath(kept.joined(separator: [UInt8(ascii: "/")]))
            }
        },
        Mutation("`.` is removed from paths") {
            $0.path = { path in
                path.count > 1 ? path.mapComponents { $0.elementsEqual(".".utf8) ? nil : Array($0) } : path
            }
        },
        Mutation("names are kept in lower case") {
            $0.path = { path in
                path.mapComponents { part in part.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 } }
            }
        },
        Mutation("names are normalised") {
            $0.path = { path in
                path.mapComponents { part in
                    String(validating: part, as: UTF8.self).map { Array($0.precomposedStringWithCanonicalMapping.utf8) }
                        ?? Array(part)
                }
            }
        },
        Mutation("bytes that are not UTF-8 are replaced") {
            $0.path = { path in path.mapComponents { Array(String(decoding: $0, as: UTF8.self).utf8) } }
        },
        Mutation("a name that is too long is truncated") { $0.path = { $0.mapComponents { Array($0.prefix(255)) } } },
        Mutation("a path ends at a NUL") {
            $0.path = { path in POSIXPath(path.bytes.prefix { $0 != 0 }) }
        },
        Mutation("an empty path is the working directory") { $0.path = { $0.isEmpty ? "." : $0 } },
        Mutation("names have 200 bytes at most") {
            $0.path = { path in
                path.mapComponents { $0.count > 200 ? [UInt8](repeating: 0x78, count: 256) : Array($0) }
            }
        },
        Mutation("paths have 4000 bytes at most") {
            $0.path = { $0.count > 4000 ? POSIXPath([UInt8](repeating: 0x2F, count: 5000)) : $0 }
        },
        Mutation("paths may have more than 4095 bytes") {
            $0.path = { path in
                guard path.count >= 4096 else { return path }
                let parts = path.bytes.split(separator: UInt8(ascii: "/"))
                return POSIXPath([0x2F] + parts.joined(separator: [UInt8(ascii: "/")]))
            }
        },
        Mutation("a chain of 41 links is followed") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .tooManySymbolicLinkLevels {
                    guard call.resolution.isEmpty, !call.options.contains(.noFollow) else { throw error }
                    var shorter = call
                    let target = try tree.base.readSymbolicLink(call.path, at: call.directory)
                    shorter.path = call.path.splitLast().parent.appending(target)
                    return try shorter(on: tree)
                }
            }
        },
        Mutation("a chain of 40 links is too long") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var path = call.path
                var links = 0
                while links < 40, tree.type(path, call.directory) == .symbolicLink {
                    links += 1
                    let target = try tree.base.readSymbolicLink(path, at: call.directory)
                    path = target.isAbsolute ? target : path.splitLast().parent.appending(target)
                }
                guard links < 40 else { throw FileSystemError(.open, .tooManySymbolicLinkLevels, path: call.path) }
                return try call(on: tree)
            }
        },
        Mutation("a cycle of links is reported as a missing file") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .tooManySymbolicLinkLevels {
                    throw FileSystemError(.open, .noSuchFileOrDirectory, path: call.path)
                }
            }
        },
        Mutation("a path below a file is reported as missing") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .notDirectory && !call.path.hasTrailingSlash {
                    throw FileSystemError(.open, .noSuchFileOrDirectory, path: call.path)
                }
            }
        },
    ]
}
