import ForgeStorageTesting
import Testing

@Suite("Every case is covered")
struct SemanticCaseTests {
    /// Locks of `fcntl(2)`: `POSIXFileSystem` deliberately lacks them; `RangeLockTests` tests the kernel's.
    private static let outsideTheProtocol: Set<Int> = [94]

    @Test("by an existing published check")
    func isAsked() {
        let published = Set(ConformanceSuite.fileSystem.checks.map(\.description))
        #expect(SemanticCase.all.map(\.number) == Array(1...140))
        for semanticCase in SemanticCase.all {
            #expect(
                semanticCase.checks.isEmpty == Self.outsideTheProtocol.contains(semanticCase.number),
                "\(semanticCase.number) \(semanticCase.situation): \(semanticCase.expectation)")
            for check in semanticCase.checks {
                #expect(published.contains(check), "\(semanticCase.number): \(check)")
            }
        }
    }

    @Test("no two checks have the same description")
    func areDistinct() {
        let descriptions = ConformanceSuite.fileSystem.checks.map(\.description)
        #expect(Set(descriptions).count == descriptions.count)
    }
}

/// A case of file-system semantics, and the published checks that cover it.
struct SemanticCase {
    let number: Int
    let situation: String
    /// The expected result on Linux.
    let expectation: String
    /// The descriptions of the checks.
    let checks: [String]

    init(_ number: Int, _ situation: String, _ expectation: String, _ checks: String...) {
        self.number = number
        self.situation = situation
        self.expectation = expectation
        self.checks = checks
    }

    /// All cases that the file systems must agree on: `f` is a file, `d` a non-empty directory, `e` an empty one, `sf`
    /// and `sd` are links to `f` and `d`.
    static let all: [SemanticCase] = [
        .init(1, "create with missing parent", "ENOENT", "a file cannot be created in a missing directory"),
        .init(2, "open `f/x`", "ENOTDIR", "a path through a file is refused"),
        .init(3, "open `f/` read", "ENOTDIR", "a file cannot be opened with a slash after its name"),
        .init(4, "open `new/` with O_CREAT", "EISDIR", "a file cannot be created with a slash after its name"),
        .init(5, "stat `f/.`", "ENOTDIR", "`.` after a file is refused"),
        .init(6, "stat `f/..`", "ENOTDIR", "`..` after a file is refused"),
        .init(7, "open directory for writing", "EISDIR", "a directory cannot be opened for writing"),
        .init(8, "read() on a directory fd", "EISDIR", "a directory cannot be read as a file"),
        .init(9, "open directory O_CREAT|O_RDONLY", "EISDIR", "a directory cannot be opened for creation"),
        .init(10, "O_CREAT|O_EXCL on existing", "EEXIST", "an exclusive creation refuses a file that exists"),
        .init(
            11, "O_CREAT|O_EXCL on dangling symlink", "EEXIST", "an exclusive creation refuses a dangling symbolic link"
        ),
        .init(
            12, "open dangling symlink", "ENOENT (O_CREAT alone creates the target)",
            "a dangling symbolic link cannot be opened",
            "a creation through a dangling symbolic link creates its target"),
        .init(13, "O_NOFOLLOW on symlink", "ELOOP", "a link is not followed if the call forbids it"),
        .init(
            14, "`sd/` with O_NOFOLLOW|O_DIRECTORY",
            "succeeds: the trailing slash follows the link (cause of CVE-2026-39822)",
            "a slash after a link follows it even if the call forbids that"),
        .init(15, "`sd` with O_NOFOLLOW|O_DIRECTORY", "ENOTDIR", "a link that is not followed is not a directory"),
        .init(16, "O_DIRECTORY on file", "ENOTDIR", "a file is not opened as a directory"),
        .init(17, "symlink loop", "ELOOP", "a symbolic link loop is refused"),
        .init(
            18, "chain of 40 links", "ok (Darwin limit 32)",
            "a chain of as many links as the system allows is followed"),
        .init(19, "chain of 41 links", "ELOOP", "a chain of links one over the limit is refused"),
        .init(20, "empty path", "ENOENT", "an empty path leads nowhere", "an empty path has no status"),
        .init(21, "name of 255 bytes", "ok", "a name may have 255 bytes"),
        .init(
            22, "name of 256 bytes", "ENAMETOOLONG",
            "a name may not have 256 bytes",
            "a name of 256 bytes cannot even be looked up"),
        .init(
            23, "85 three-byte characters", "ok", "the name limit counts bytes: 85 three-byte characters are accepted"),
        .init(
            24, "86 three-byte characters", "ENAMETOOLONG",
            "the name limit counts bytes: 86 three-byte characters are refused"),
        .init(25, "path of 4095 bytes", "ok (Darwin 1023)", "a path may be as long as the system allows"),
        .init(
            26, "path of 4096 bytes", "ENAMETOOLONG (Darwin 1024)", "a path one byte longer than the limit is refused"),
        .init(
            27, "NUL inside a path", "reject EINVAL before any syscall (C would truncate)",
            "a path with a NUL inside cannot be opened",
            "a path with a NUL inside is refused before any lookup",
            "a path with a NUL inside cannot be created or removed"),
        .init(
            28, "invalid UTF-8 name", "ok on Linux (APFS: EILSEQ)",
            "a name that is not UTF-8 is kept unchanged, or refused on Darwin"),
        .init(
            29, "NFC and NFD of é", "two files on Linux; one on APFS",
            "canonically equivalent names differ, unless normalisation is ignored"),
        .init(
            30, "`Case` and `case`", "two files on Linux; one on default APFS",
            "names with different case differ, unless case is ignored"),
        .init(31, "mkdir on a directory", "EEXIST", "a directory is not created where one exists"),
        .init(32, "mkdir on a file", "EEXIST", "a directory is not created where a file exists"),
        .init(33, "mkdir on a dangling link", "EEXIST", "a directory is not created where a dangling link exists"),
        .init(34, "mkdir, parent missing", "ENOENT", "a directory is not created in a missing directory"),
        .init(35, "mkdir `/`", "EEXIST", "the root directory is not created"),
        .init(36, "mkdir `x/`", "ok", "a directory may be created with a slash after its name"),
        .init(37, "rmdir non-empty", "ENOTEMPTY", "a non-empty directory is not removed"),
        .init(38, "rmdir a file", "ENOTDIR", "a file is not removed as a directory"),
        .init(39, "rmdir a symlink to a directory", "ENOTDIR", "a link to a directory is not removed as a directory"),
        .init(40, "rmdir missing", "ENOENT", "a missing directory is not removed"),
        .init(41, "rmdir `e/.`", "EINVAL", "a directory is not removed as `.`"),
        .init(42, "rmdir `d/..`", "ENOTEMPTY", "a directory is not removed as `..`"),
        .init(43, "rmdir `/`", "EBUSY", "the root directory is not removed"),
        .init(44, "rmdir `sd/`", "ENOTDIR", "a slash after a link does not make it removable as a directory"),
        .init(45, "unlink missing", "ENOENT", "a missing file is not unlinked"),
        .init(46, "unlink directory", "EISDIR (Darwin EPERM)", "a directory is not unlinked"),
        .init(47, "unlink `f/`", "ENOTDIR", "a file is not unlinked with a slash after its name"),
        .init(48, "unlink `f/x`", "ENOTDIR", "nothing is unlinked below a file"),
        .init(49, "rename, source missing", "ENOENT", "a missing file is not renamed"),
        .init(
            50, "rename, target's parent missing", "ENOENT, the source is still there",
            "a file is not renamed into a missing directory"),
        .init(51, "rename file over directory", "EISDIR", "a file does not replace a directory"),
        .init(52, "rename directory over file", "ENOTDIR", "a directory does not replace a file"),
        .init(53, "rename directory over empty directory", "ok, replaces", "a directory replaces an empty directory"),
        .init(
            54, "rename directory over non-empty", "ENOTEMPTY (XFS: EEXIST; accept both in real-disk tests)",
            "a directory does not replace a non-empty directory"),
        .init(
            55, "rename into own subtree", "EINVAL, tree unchanged",
            "a directory does not move into its own subtree"),
        .init(56, "rename `d/s` onto its ancestor `d`", "ENOTEMPTY", "a directory does not replace its parent"),
        .init(57, "rename to itself", "ok, no change", "renaming a file or directory to itself changes nothing"),
        .init(
            58, "rename onto a hard link of the same inode", "ok, both names stay, nlink 2",
            "renaming a file over another of its names changes nothing"),
        .init(59, "rename `d/.`", "EBUSY", "`.` is not renamed"),
        .init(60, "rename `d/..`", "EBUSY", "`..` is not renamed"),
        .init(61, "rename a file to `new/`", "ENOTDIR", "a file is not renamed to a name with a trailing slash"),
        .init(62, "rename a directory to `new/`", "ok", "a directory is renamed to a name with a trailing slash"),
        .init(63, "rename through a loop", "ELOOP", "a rename through a cycle of links is refused"),
        .init(
            64, "rename a symlink", "moves the link, target text unchanged",
            "renaming a link moves the link with its target path"),
        .init(65, "link onto existing", "EEXIST", "a hard link does not replace an existing file"),
        .init(66, "hard link to a directory", "EPERM", "a directory gets no second name"),
        .init(
            67, "link to a symlink", "links the link itself (Linux)",
            "a hard link to a symbolic link is a second name of the link itself"),
        .init(68, "symlink on existing name", "EEXIST", "a symbolic link does not replace an existing file"),
        .init(69, "symlink with empty target", "ENOENT", "a symbolic link with an empty target is not created"),
        .init(70, "readlink on file", "EINVAL", "a file that is no link has no target"),
        .init(
            71, "symlink target of 4095 bytes", "ok, stored verbatim (XFS ENAMETOOLONG)",
            "a target of the maximum path length is kept byte for byte"),
        .init(
            72, "symlink target of 4096 bytes", "ENAMETOOLONG",
            "a link's target one byte longer than the longest path is refused"),
        .init(
            73, "`sl/../mark`, sl→far/in", "resolves to far/mark (never lexical)",
            "`..` after a link is the parent of the link's target"),
        .init(74, "`/..`", "is `/`", "`..` of the root directory is the root directory"),
        .init(
            75, "unlink while open", "fd reads and writes on, fstat nlink 0, name gone",
            "a file that was unlinked while open can be read and written until it is closed"),
        .init(
            76, "rename over an open file", "old fd sees old content, path sees new",
            "a file replaced by a rename while open keeps its content for open descriptors"),
        .init(
            77, "rename directory with an open child", "fd still good, data at new path",
            "a file stays open while its directory is renamed"),
        .init(78, "read on a write-only descriptor", "EBADF", "a descriptor for writing does not read"),
        .init(79, "write on a read-only descriptor", "EBADF", "a descriptor for reading does not write"),
        .init(
            80, "a closed descriptor", "EBADF",
            "every call refuses an invalid descriptor",
            "a closed descriptor is refused"),
        .init(81, "ftruncate on read-only fd", "EINVAL", "a descriptor for reading does not truncate"),
        .init(82, "truncate a directory", "EISDIR", "a directory is not truncated"),
        .init(83, "truncate to a negative size", "EINVAL", "a file is not truncated to a negative size"),
        .init(84, "truncate what is missing", "ENOENT", "a missing file is not truncated"),
        .init(
            85, "O_APPEND after lseek(0); and pwrite(…,0) on it",
            "appends; Linux pwrite also appends (Darwin honours the offset)",
            "a file opened for appending is written at its end, regardless of its offset"),
        .init(
            86, "sparse write at 10,000", "hole reads zeros, size 10,001, fewer blocks",
            "a hole reads as zeros and takes no space"),
        .init(
            87, "shrink to 3 then grow to 6", "new bytes zero, old bytes never return",
            "truncated data never reappears"),
        .init(88, "read beyond the end", "0 bytes", "reading beyond the end returns no bytes"),
        .init(89, "lseek to a negative offset", "EINVAL", "negative offsets are refused"),
        .init(90, "pread at a negative offset", "EINVAL", "negative offsets are refused"),
        .init(91, "fsync on a read-only descriptor", "ok", "a file opened for reading only can be synchronised"),
        .init(92, "fsync on a directory's descriptor", "ok", "a directory can be synchronised"),
        .init(
            93, "flock: two opens in one process", "EAGAIN (conflict per open file)",
            "a lock excludes another open of the same process"),
        .init(
            94, "fcntl lock: two opens in one process", "no conflict; lost on *any* close of the file by the process"
        ),
        .init(95, "dup", "shares the offset", "a duplicate shares the offset, a second open does not"),
        .init(96, "descriptors exhausted", "EMFILE", "a process at its limit of open files cannot open more"),
        .init(
            97, "directory mtime", "changes on create/delete, not on a child's content",
            "a directory's modification time changes with its entries, not with the content of its files"),
        .init(
            98, "rename, chmod", "mtime kept, ctime bumped",
            "a rename and a change of mode keep the modification time and update the change time"),
        .init(
            99, "directory nlink", "2, +1 per subdirectory (btrfs: always 1)",
            "a directory's link count counts its subdirectories"),
        .init(100, "umask", "0644 & ~077 = 0600", "the umask clears permissions of new files and directories"),
        .init(
            101, "a non-owner creates in a 0755 directory", "EACCES",
            "a user cannot create a file in another user's directory"),
        .init(
            102, "a non-owner unlinks in a 0755 directory", "EACCES",
            "a user cannot unlink a file in another user's directory"),
        .init(
            103, "lookup in a directory without x", "EACCES",
            "a lookup in a directory without search permission fails"),
        .init(
            104, "listing a directory with r but without x", "the names",
            "names can be listed in a directory without search permission"),
        .init(105, "open another's 0600", "EACCES", "another's private file is not opened"),
        .init(
            106, "unlink in a sticky directory by a non-owner", "EPERM",
            "a user does not unlink another's file in a sticky directory"),
        .init(107, "chmod by a non-owner", "EPERM", "a user does not change the mode of another's file"),
        .init(108, "listing order", "unsorted on all four", "a listing is not sorted"),
        .init(109, "rename with NOREPLACE onto existing", "EEXIST", "an exclusive rename does not replace a file"),
        .init(
            110, "working directory removed, then create", "ENOENT",
            "nothing can be created in a directory that was removed"),
        .init(111, "write of 0 bytes", "no time changes", "an empty write changes no timestamp"),
        .init(
            112, "write beyond the quota", "short write, then ENOSPC; earlier bytes stay",
            "a write that fills the device is short, the next is refused, and the written bytes are kept"),
        .init(
            113, "overwrite inside an extent at full quota", "ok",
            "allocated bytes can be overwritten on a full device"),
        .init(
            114, "unlink at full quota", "frees space when the last descriptor closes",
            "the space of an unlinked file is freed when its last descriptor is closed"),
        .init(115, "rename at full quota", "ok", "files can be renamed, removed and truncated on a full device"),
        .init(116, "inode quota", "ENOSPC", "a device without free inodes creates nothing until one is free"),
        .init(
            117, "read-only device", "EROFS from every change; O_CREAT of an existing file without O_TRUNC is ok",
            "a read-only device refuses every change",
            "a read-only device can be read, even by an open with the create option"),
        .init(
            118, "rename across two devices", "EXDEV",
            "nothing is renamed to another device",
            "nothing is linked to another device"),
        .init(
            119, "two mkdirs in parallel", "exactly one succeeds",
            "of many concurrent attempts to create one directory, exactly one succeeds"),
        .init(
            120, "1,000 parallel creations in one directory", "1,000 names",
            "a thousand files created concurrently all exist"),
        .init(
            121, "appends through 8 opens, 1,000 records each", "8,000 whole records",
            "records appended concurrently through several opens are whole, and none is lost"),
        .init(
            122, "delete while listing", "each name that stays exactly once",
            "a listing during removals contains every remaining name exactly once"),
        .init(123, "removeTree of a missing path", "ENOENT", "removing a missing tree is an error"),
        .init(
            124, "removeTree of a symlink to a directory", "removes the link only",
            "removing a link to a directory as a tree removes only the link"),
        .init(125, "removeTree with a symlink inside", "never follows", "removing a tree never follows a link in it"),
        .init(126, "copy of a directory", "deep, new inodes", "a copied tree is complete and consists of new files"),
        .init(
            127, "list `/a` when `/ab` exists", "only what is in `/a`",
            "a listing contains the directory's entries, not names that share its prefix"),
        .init(
            128, "exists on a directory; on a dangling link", "true; false, lstat true",
            "a directory exists, a dangling link does not"),
        .init(
            129, "createDirectories over a file in the middle", "ENOTDIR",
            "directories are not created over a file on the way"),
        .init(
            130, "createDirectories of what exists, concurrently", "ok",
            "creating existing directories succeeds, also concurrently"),
        .init(
            131, "open and close 100,000 times", "nothing stays open",
            "a hundred thousand opens and closes leave nothing open"),
        .init(132, "link count limit", "EMLINK at 65,000 on ext4", "a file has 65,000 names at most"),
        .init(133, "times before 1970 and after 2038", "kept", "times before 1970 and after 2038 are kept"),
        .init(
            134, "case-insensitive: create `A`, open `a`; rename `a` to `A`",
            "same file, shown as `A`; changes how it is shown",
            "a file is found in any case and listed with its original name",
            "a rename to another case changes how the name is shown, and nothing else"),
        .init(
            135, "normalisation-insensitive: NFC and NFD", "same file, bytes preserved",
            "a file is found in any normalisation and listed with its original bytes"),
        .init(136, "ß and ss, case-insensitive", "same file", "case is folded in full: ß is ss"),
        .init(
            137, "`.` and `..` as names of entries", "never created, never listed",
            "`.` and `..` are never created",
            "`.` and `..` are never listed"),
        .init(138, "`//` and `/./`", "collapse", "slashes and `.` in a path collapse"),
        .init(139, "fsync after unlink", "ok", "synchronising a file that was unlinked succeeds"),
        .init(140, "reuse of descriptors", "lowest free number", "a new descriptor has the lowest free number"),
    ]
}
