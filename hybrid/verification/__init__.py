"""Shadow verification: some calls of hybridized functions run eagerly, too, and are compared."""
