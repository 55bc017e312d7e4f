// `import ForgeStorage` also imports these libraries.
@_exported public import ForgeCoding
@_exported public import ForgeCrypt
@_exported public import ForgeFileStore
@_exported public import ForgeFileSystem
@_exported public import ForgeKVStore
